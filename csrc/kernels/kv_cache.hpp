// Where keys and values live, and how a row's are stored. Layout: KvLayer in kernel_table.hpp.
#pragma once

#include "kernel_table.hpp"
#include "vec16.hpp"

namespace verispec::VERISPEC_ISA_NS {

// Start of the ring block that holds absolute block `block` (position / kKeyBlock), for one kv head. The same
// offset serves keys ([head_dim][kKeyBlock]) and values ([kKeyBlock][head_dim]).
inline int64_t block_offset(const KvLayer& cache, int slot, int64_t block, int kv_head) {
  const int64_t ring = static_cast<int64_t>(slot) * cache.blocks + block % cache.blocks;
  return (ring * cache.kv_heads + kv_head) * cache.head_dim * kKeyBlock;
}

inline void store_kv(const KvLayer& cache, int slot, int64_t position, const float* k, const float* v) {
  const int lane = static_cast<int>(position % kKeyBlock);
  const int head_dim = cache.head_dim;
  for (int h = 0; h < cache.kv_heads; ++h) {
    const int64_t start = block_offset(cache, slot, position / kKeyBlock, h);
    uint16_t* keys = cache.keys + start + lane;
    uint16_t* values = cache.values + start + static_cast<int64_t>(lane) * head_dim;
    const float* key = k + static_cast<int64_t>(h) * head_dim;
    const float* value = v + static_cast<int64_t>(h) * head_dim;
    for (int d = 0; d < head_dim; d += 16) {
      const int count = head_dim - d < 16 ? head_dim - d : 16;
      uint16_t rounded[16];
      load_first(key + d, count).to_f16(rounded);
      for (int i = 0; i < count; ++i) keys[(d + i) * kKeyBlock] = rounded[i];
      load_first(value + d, count).to_f16(rounded);
      for (int i = 0; i < count; ++i) values[d + i] = rounded[i];
    }
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
