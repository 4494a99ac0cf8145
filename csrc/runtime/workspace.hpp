// The memory of a pass. Programs of one model share it, since they never run at the same time.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "memory.hpp"

namespace verispec {

class Workspace {
 public:
  // Makes room for `bytes`. Growing moves the workspace: what a pass left in it is lost, though views that
  // hold the old memory stay valid.
  void reserve(size_t bytes) {
    if (memory_ && memory_->size() >= bytes) return;
    memory_ = std::make_shared<Memory>(bytes, Memory::Pages::kHuge);
  }

  const std::shared_ptr<Memory>& memory() const { return memory_; }

  bool try_acquire() { return !busy_.exchange(true, std::memory_order_acquire); }
  void release() { busy_.store(false, std::memory_order_release); }

 private:
  std::shared_ptr<Memory> memory_;
  std::atomic<bool> busy_{false};
};

}  // namespace verispec
