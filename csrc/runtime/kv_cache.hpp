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

  // A layer of three zeros keeps nothing. `positions` bounds every position a pass may use. Memory is
  // committed as positions are written. Throws std::invalid_argument for shapes out of range, std::bad_alloc
  // when the system refuses.
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
  // std::invalid_argument for a bad slot, std::runtime_error while the cache is in use.
  void discard_slot(int slot);

  // Bytes of the keys and values of positions [begin, end), all layers: what save writes and load reads.
  // Throws std::invalid_argument unless they are whole key blocks that every layer keeps at once.
  size_t saved_bytes(int64_t begin, int64_t end) const;

  // Copies positions [begin, end) of a slot out of the cache and into it. The layout is
  // the cache's own: layer after layer, keys and then values, key block after key block. Whether a ring still
  // holds the positions is for the caller to know. Throws std::invalid_argument for a bad slot or range and
  // for a closed cache, std::runtime_error while the cache is in use.
  void save(int slot, int64_t begin, int64_t end, uint8_t* to);
  void load(int slot, int64_t begin, int64_t end, const uint8_t* from);

  // Frees everything at once. Throws std::runtime_error while the cache is in use.
  void close();

  // Held by a pass while it runs; a copy in or out holds it alone.
  std::shared_mutex& in_use() { return in_use_; }

 private:
  template <typename Copy>
  void for_key_blocks(int slot, int64_t begin, int64_t end, Copy copy);

  int slots_;
  int64_t positions_;
  bool closed_ = false;
  std::vector<KvLayer> layers_;
  Memory memory_;
  std::shared_mutex in_use_;
};

}  // namespace verispec
