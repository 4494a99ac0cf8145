// Checks of what a caller passes in. A failed one throws std::invalid_argument (ValueError in Python) that
// says what was wrong, what was expected and what was found.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace verispec {

inline void require(bool holds, const std::string& message) {
  if (!holds) throw std::invalid_argument(message);
}

inline void require_range(const std::string& what, int64_t found, int64_t least, int64_t greatest) {
  if (found >= least && found <= greatest) return;
  throw std::invalid_argument(what + ": expected " + std::to_string(least) + " to " +
                              std::to_string(greatest) + ", found " + std::to_string(found));
}

inline void require_equal(const std::string& what, int64_t expected, int64_t found) {
  if (found == expected) return;
  throw std::invalid_argument(what + ": expected " + std::to_string(expected) + ", found " +
                              std::to_string(found));
}

}  // namespace verispec
