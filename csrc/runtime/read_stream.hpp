// How fast this machine reads memory: the ceiling that a pass over weights is held against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.hpp"
#include "thread_pool.hpp"

namespace verispec {

// A written buffer in huge pages that threads read from end to end, as a pass reads its weights.
class ReadStream {
 public:
  // `bytes` is rounded up to whole chunks. Throws std::bad_alloc when the system has no room.
  explicit ReadStream(size_t bytes);

  size_t bytes() const { return memory_.size(); }

  // Reads the whole buffer once, on all threads of the pool; seconds.
  double read(ThreadPool& pool);

 private:
  Memory memory_;
  std::vector<uint64_t> sums_;  // one a chunk, so that no read can be left out
};

}  // namespace verispec
