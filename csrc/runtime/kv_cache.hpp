// Keys and values of every layer and sequence slot of one model, in f16.
#pragma once

#include <cstdint>
#include <shared_mutex>
#include <vector>

#include "../kernels/kernel_table.hpp"
#include "memory.hpp"

namespace verispec {

class KvCache {
 public:
  struct LayerShape {
    int kv_heads;
    int head_dim;
    int64_t kept;  // positions held per slot; fewer than the cache's positions makes the layer a ring
  };

  // `positions` bounds every position a pass may use. Memory is committed as positions are written.
  // Throws std::invalid_argument for shapes out of range, std::bad_alloc when the system refuses.
  KvCache(int slots, int64_t positions, const std::vector<LayerShape>& layers);

  int slots() const { return slots_; }
  int64_t positions() const { return positions_; }
  int layers() const { return static_cast<int>(layers_.size()); }
  size_t bytes() const { return memory_.size(); }
  bool closed() const { return closed_; }

  // Throws std::invalid_argument for an unknown layer or a closed cache.
  const KvLayer& layer(int index) const;
  int64_t kept(int layer_index) const { return int64_t{layer(layer_index).blocks} * kKeyBlock; }

  // Gives the memory of a slot back; its keys and values read as zero afterwards. Throws
  // std::invalid_argument for a bad slot, std::runtime_error while a pass is running.
  void discard_slot(int slot);

  // Frees everything at once. Throws std::runtime_error while a pass is running.
  void close();

  // Held by a pass while it runs.
  std::shared_mutex& in_use() { return in_use_; }

 private:
  int slots_;
  int64_t positions_;
  bool closed_ = false;
  std::vector<KvLayer> layers_;
  Memory memory_;
  std::shared_mutex in_use_;
};

}  // namespace verispec
