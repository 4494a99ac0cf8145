// How a copy or a release gets memory to itself that passes share while they run.
#pragma once

#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>

namespace verispec {

// Throws std::runtime_error when anybody holds it.
inline std::unique_lock<std::shared_mutex> hold_alone(const char* what, std::shared_mutex& in_use) {
  std::unique_lock<std::shared_mutex> lock(in_use, std::try_to_lock);
  if (!lock.owns_lock()) throw std::runtime_error(std::string(what) + ": a pass or a copy is running on it");
  return lock;
}

}  // namespace verispec
