// Attention of rows over the KV cache: online softmax over steps of 64 keys aligned by absolute position.
//
// A row's result is a function of its query, its visible keys and values, its position and the window alone:
//   for each step that holds a visible key, in position order:
//     m' = max(m, scores);  p = exp(scores - m');  c = exp(m - m')
//     lane sums = lane sums * c + ((p0 + p1) + (p2 + p3));  out = out * c,
//     then + p[key] * value[key] key by key
//   out / (fixed tree over the lane sums)
// Lanes of keys outside [first, last] are replaced before use and their values are never read into a sum, so
// that whatever a rejected row left there has no effect.
#pragma once

#include "attention_step.hpp"
#include "kv_cache.hpp"

namespace verispec::VERISPEC_ISA_NS {

// Keys and values of a step in f32.
struct ConvertedStep {
  alignas(64) float keys[kStepKeys * kMaxHeadDim];
  alignas(64) float values[kStepKeys * kMaxHeadDim];
};

// The f16 blocks of a step that hold a position of [first, last], as they lie in the cache; the
// others are null.
inline KeyStep<uint16_t> stored_step(const KvLayer& cache, int slot, int kv_head, int64_t step, int64_t first,
                                     int64_t last) {
  KeyStep<uint16_t> stored{{}, {}, {}, cache.head_dim, kValuePanel, cache.head_dim};
  for (int b = 0; b < kStepBlocks; ++b) {
    const int64_t block = step * kStepBlocks + b;
    if (block < first / kKeyBlock || block > last / kKeyBlock) continue;
    const int64_t offset = block_offset(cache, slot, block, kv_head);
    stored.keys[b] = cache.keys + offset;
    stored.values[b] = cache.values + offset;
    stored.next_keys[b] = cache.keys + block_offset(cache, slot, block + kStepBlocks, kv_head);
  }
  return stored;
}

// The values of one key into panels of dimensions.
inline void convert_value(const uint16_t* from, int head_dim, int panel_stride, float* to) {
  int d = 0;
  for (; d + 16 <= head_dim; d += 16)
    F32x16::from_f16(from + d).store(to + d / kValuePanel * panel_stride + d % kValuePanel);
  if (d == head_dim) return;
  uint16_t part[16] = {};
  for (int i = d; i < head_dim; ++i) part[i - d] = from[i];
  F32x16::from_f16(part).store(to + d / kValuePanel * panel_stride + d % kValuePanel);
}

// The same step in f32. Values are laid out by panels: rows a power of two apart would compete for the same
// few cache sets.
inline KeyStep<float> convert_step(const KeyStep<uint16_t>& stored, ConvertedStep& room) {
  const int head_dim = stored.head_dim;
  KeyStep<float> step{{}, {}, {}, head_dim, kStepKeys * kValuePanel, kValuePanel};
  for (int b = 0; b < kStepBlocks; ++b) {
    if (!stored.keys[b]) continue;
    float* keys = room.keys + static_cast<int64_t>(b) * kKeyBlock * head_dim;
    float* values = room.values + b * kKeyBlock * kValuePanel;
    for (int i = 0; i < head_dim * kKeyBlock; i += 16) F32x16::from_f16(stored.keys[b] + i).store(keys + i);
    for (int key = 0; key < kKeyBlock; ++key)
      convert_value(stored.values[b] + key * head_dim, head_dim, step.panel_stride,
                    values + key * kValuePanel);
    step.keys[b] = keys;
    step.values[b] = values;
  }
  return step;
}

inline void attend_group(const KvLayer& cache, const AttentionShape& shape, int slot, int kv_head,
                         QueryGroup& group) {
  int64_t first = group.first[0], last = group.last[0];
  for (int r = 1; r < group.rows; ++r) {
    if (group.first[r] < first) first = group.first[r];
    if (group.last[r] > last) last = group.last[r];
  }
  // Few rows read f16 as it is; heads that are no multiple of 16 wide need the padded copy.
  const bool direct = group.rows <= kDirectRows && group.stride == cache.head_dim;
  ConvertedStep room;
  KeyStep<uint16_t> stored = stored_step(cache, slot, kv_head, first / kStepKeys, first, last);
  for (int64_t step = first / kStepKeys; step <= last / kStepKeys; ++step) {
    const KeyStep<uint16_t> next = stored_step(cache, slot, kv_head, step + 1, first, last);
    if (direct) {
      attend_step(stored, next, step, shape.softcap, group);
    } else {
      attend_step(convert_step(stored, room), next, step, shape.softcap, group);
    }
    stored = next;
  }
}

inline int64_t first_visible(const AttentionShape& shape, int64_t position) {
  const int64_t begin = shape.window > 0 ? position - shape.window + 1 : 0;
  return begin > shape.first ? begin : shape.first;
}

inline void attention(const KvLayer& cache, const AttentionShape& shape, int m, const int32_t* slots,
                      const int32_t* positions, const float* q, int kv_head, float* out) {
  const int head_dim = cache.head_dim;
  const int group_heads = shape.heads / cache.kv_heads;
  QueryGroup group;
  group.stride = (head_dim + 15) / 16 * 16;
  const int capacity =
      kGroupFloats / group.stride < kMaxGroupRows ? kGroupFloats / group.stride : kMaxGroupRows;
  const F32x16 factor = F32x16::set1(shape.scale);
  const auto element = [&](int query_row) {  // offset of a query row's head in q and out
    const int64_t row = query_row / group_heads;
    return (row * shape.heads + kv_head * group_heads + query_row % group_heads) * head_dim;
  };
  const int query_rows = m * group_heads;
  for (int begin = 0; begin < query_rows;) {
    const int slot = slots[begin / group_heads];
    group.rows = 0;
    for (int i = begin; i < query_rows && group.rows < capacity && slots[i / group_heads] == slot; ++i) {
      const int r = group.rows++;
      const int64_t position = positions[i / group_heads];
      group.last[r] = position;
      group.first[r] = first_visible(shape, position);
      group.greatest[r] = -__builtin_inff();
      F32x16::zero().store(group.lane_sums[r]);
      for (int d = 0; d < group.stride; d += 16) {
        (load_first(q + element(i) + d, head_dim - d) * factor).store(group.query + r * group.stride + d);
        F32x16::zero().store(group.sums + r * group.stride + d);
      }
    }
    F32x16::set1(-__builtin_inff()).store(group.greatest + group.rows);
    attend_group(cache, shape, slot, kv_head, group);
    for (int r = 0; r < group.rows; ++r) {
      const F32x16 total = F32x16::set1(hsum(F32x16::load(group.lane_sums[r])));
      for (int d = 0; d < head_dim; d += 16) {
        const F32x16 y = F32x16::load(group.sums + r * group.stride + d) / total;
        store_first(y, out + element(begin + r) + d, head_dim - d);
      }
    }
    begin += group.rows;
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
