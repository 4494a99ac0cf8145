// Attention of rows over the KV cache: online softmax over steps of 64 keys aligned by absolute position.
//
// A row's result is a function of its query, its visible keys and values, its position and the window alone:
//   for each step that holds a visible key, in position order:
//     m' = max(m, scores);  p = exp(scores - m');  c = exp(m - m')
//     lane sums = lane sums * c + ((p0 + p1) + (p2 + p3));  out = out * c, then + p[key] * value[key] key by key
//   out / (fixed tree over the lane sums)
// Lanes of keys outside [first, last] are replaced before use and their values are never read into a sum, so
// that whatever a rejected row left there has no effect.
#pragma once

#include "attention_tiles.hpp"
#include "elementwise.hpp"
#include "kv_cache.hpp"

namespace verispec::VERISPEC_ISA_NS {

constexpr int kMaxGroupRows = 96;                 // query rows that share one conversion of keys and values
constexpr int kGroupFloats = kMaxGroupRows * 256;  // room for their queries; fewer rows for wider heads

// Query rows (a row of the pass and one of its heads) of one slot and kv head, and their running softmax.
struct QueryGroup {
  int rows;
  int stride;  // head_dim rounded up to 16
  int64_t first[kMaxGroupRows];  // visible positions [first, last]
  int64_t last[kMaxGroupRows];
  float greatest[kMaxGroupRows];
  alignas(64) float lane_sums[kMaxGroupRows][16];
  alignas(64) float query[kGroupFloats];  // scaled
  alignas(64) float sums[kGroupFloats];
};

// Keys and values of a step in f32.
struct ConvertedStep {
  alignas(64) float keys[kStepKeys * kMaxHeadDim];
  alignas(64) float values[kStepKeys * kMaxHeadDim];
};

struct KeyRange {  // keys of a step: [begin, end), empty when begin >= end
  int begin, end;
};

inline KeyRange visible_keys(const QueryGroup& group, int row, int64_t step) {
  const int64_t start = step * kStepKeys;
  const int64_t begin = group.first[row] - start;
  const int64_t end = group.last[row] + 1 - start;
  return {static_cast<int>(begin < 0 ? 0 : begin > kStepKeys ? kStepKeys : begin),
          static_cast<int>(end > kStepKeys ? kStepKeys : end < 0 ? 0 : end)};
}

// One row's softmax over a step: its scores become weights; returns the new greatest score.
inline float weigh_keys(float* scores, KeyRange keys, float softcap, float greatest, F32x16* weight_sum) {
  const F32x16 hidden = F32x16::set1(-__builtin_inff());
  F32x16 s[kStepBlocks];
  for (int b = 0; b < kStepBlocks; ++b) {
    const int begin = keys.begin - b * kKeyBlock;
    const int end = keys.end - b * kKeyBlock;
    if (begin >= kKeyBlock || end <= 0) {
      s[b] = hidden;
      continue;
    }
    s[b] = F32x16::load(scores + b * kKeyBlock);
    if (softcap != 0.0f) s[b] = softcap_lanes(s[b], F32x16::set1(softcap));
    if (begin > 0 || end < kKeyBlock)
      s[b] = select(lanes(begin > 0 ? begin : 0, end < kKeyBlock ? end : kKeyBlock), s[b], hidden);
  }
  const float top = hmax(max(max(s[0], s[1]), max(s[2], s[3])));
  greatest = greatest > top ? greatest : top;
  for (int b = 0; b < kStepBlocks; ++b) {
    s[b] = exp_nonpositive(s[b] - F32x16::set1(greatest));
    s[b].store(scores + b * kKeyBlock);
  }
  *weight_sum = (s[0] + s[1]) + (s[2] + s[3]);
  return greatest;
}

// factors[r] = exp(old - new) for a tile's rows, in one vector.
inline void rescale_factors(const float* old_greatest, const float* new_greatest, float* factors) {
  exp_nonpositive(F32x16::load(old_greatest) - F32x16::load(new_greatest)).store(factors);
}

// Rows [at, at + Rows) of the group over one step.
template <int Rows, typename Element>
inline void attend_tile(const KeyStep<Element>& keys, int64_t step, float softcap, QueryGroup& group, int at) {
  KeyRange visible[Rows];
  KeyRange any{kStepKeys, 0}, common{0, kStepKeys};
  for (int r = 0; r < Rows; ++r) {
    const KeyRange v = visible[r] = visible_keys(group, at + r, step);
    common = {v.begin > common.begin ? v.begin : common.begin, v.end < common.end ? v.end : common.end};
    if (v.begin < v.end)
      any = {v.begin < any.begin ? v.begin : any.begin, v.end > any.end ? v.end : any.end};
  }
  if (any.begin >= any.end) return;

  alignas(64) float scores[Rows][kStepKeys];
  score_blocks<Rows>(keys, any.begin / kKeyBlock, (any.end + kKeyBlock - 1) / kKeyBlock,
                     group.query + static_cast<int64_t>(at) * group.stride, group.stride, scores);

  alignas(64) float old_greatest[16] = {}, new_greatest[16] = {}, factors[16];
  F32x16 weight_sums[Rows];
  for (int r = 0; r < Rows; ++r) {
    if (visible[r].begin >= visible[r].end) continue;
    old_greatest[r] = group.greatest[at + r];
    new_greatest[r] = weigh_keys(scores[r], visible[r], softcap, old_greatest[r], &weight_sums[r]);
    group.greatest[at + r] = new_greatest[r];
  }
  rescale_factors(old_greatest, new_greatest, factors);
  for (int r = 0; r < Rows; ++r) {
    if (visible[r].begin >= visible[r].end) continue;
    float* sums = group.lane_sums[at + r];
    fma(F32x16::load(sums), F32x16::set1(factors[r]), weight_sums[r]).store(sums);
  }

  // Keys that every row sees go through the register tile; what some rows see before or after, row by row.
  float* sums = group.sums + static_cast<int64_t>(at) * group.stride;
  const bool shared = common.begin < common.end;
  for (int r = 0; r < Rows; ++r) {
    const int end = shared ? common.begin : visible[r].end;
    if (visible[r].begin >= end) continue;
    add_values<1>(keys, visible[r].begin, end, scores + r, factors + r, sums + r * group.stride, group.stride);
    factors[r] = 1.0f;
  }
  if (!shared) return;
  add_values<Rows>(keys, common.begin, common.end, scores, factors, sums, group.stride);
  const float one = 1.0f;
  for (int r = 0; r < Rows; ++r)
    if (common.end < visible[r].end)
      add_values<1>(keys, common.end, visible[r].end, scores + r, &one, sums + r * group.stride, group.stride);
}

template <typename Element>
inline void attend_step(const KeyStep<Element>& keys, int64_t step, float softcap, QueryGroup& group) {
  int at = 0;
  for (; at + kRowTile <= group.rows; at += kRowTile)
    attend_tile<kRowTile>(keys, step, softcap, group, at);
  switch (group.rows - at) {
    case 5:
      if constexpr (kRowTile > 5) attend_tile<5>(keys, step, softcap, group, at);
      break;
    case 4:
      if constexpr (kRowTile > 4) attend_tile<4>(keys, step, softcap, group, at);
      break;
    case 3:
      attend_tile<3>(keys, step, softcap, group, at);
      break;
    case 2:
      attend_tile<2>(keys, step, softcap, group, at);
      break;
    case 1:
      attend_tile<1>(keys, step, softcap, group, at);
      break;
    default:
      break;
  }
}

// The f16 blocks [begin, end) of a step as they lie in the cache.
inline KeyStep<uint16_t> stored_step(const KvLayer& cache, int slot, int kv_head, int64_t step, int begin,
                                     int end) {
  KeyStep<uint16_t> stored{{}, {}, cache.head_dim, cache.head_dim};
  for (int b = begin; b < end; ++b) {
    const int64_t offset = block_offset(cache, slot, step * kStepBlocks + b, kv_head);
    stored.keys[b] = cache.keys + offset;
    stored.values[b] = cache.values + offset;
  }
  return stored;
}

inline KeyStep<float> convert_step(const KeyStep<uint16_t>& stored, int begin, int end, int stride,
                                   ConvertedStep& room) {
  KeyStep<float> step{{}, {}, stored.head_dim, stride};
  for (int b = begin; b < end; ++b) {
    float* keys = room.keys + static_cast<int64_t>(b) * kKeyBlock * stored.head_dim;
    float* values = room.values + static_cast<int64_t>(b) * kKeyBlock * stride;
    for (int d = 0; d < stored.head_dim; ++d)
      F32x16::from_f16(stored.keys[b] + d * kKeyBlock).store(keys + d * kKeyBlock);
    for (int key = 0; key < kKeyBlock; ++key) {
      const uint16_t* from = stored.values[b] + key * stored.head_dim;
      for (int d = 0; d < stride; d += 16) {
        uint16_t part[16] = {};
        const int count = stored.head_dim - d < 16 ? stored.head_dim - d : 16;
        std::memcpy(part, from + d, static_cast<size_t>(count) * sizeof(uint16_t));
        F32x16::from_f16(part).store(values + key * stride + d);
      }
    }
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
  // Few rows read f16 once anyway; heads that are no multiple of 16 wide need the padded copy.
  const bool direct = group.rows <= kRowTile && group.stride == cache.head_dim;
  ConvertedStep room;
  for (int64_t step = first / kStepKeys; step <= last / kStepKeys; ++step) {
    const int64_t base = step * kStepBlocks;
    const int64_t lowest = first / kKeyBlock - base;
    const int64_t highest = last / kKeyBlock - base;
    const int begin = static_cast<int>(lowest < 0 ? 0 : lowest);
    const int end = static_cast<int>(highest >= kStepBlocks ? kStepBlocks : highest + 1);
    const KeyStep<uint16_t> stored = stored_step(cache, slot, kv_head, step, begin, end);
    if (direct) {
      attend_step(stored, step, shape.softcap, group);
    } else {
      attend_step(convert_step(stored, begin, end, group.stride, room), step, shape.softcap, group);
    }
  }
}

inline void attention(const KvLayer& cache, const AttentionShape& shape, int m, const int32_t* slots,
                      const int32_t* positions, const float* q, int kv_head, float* out) {
  const int head_dim = cache.head_dim;
  const int group_heads = shape.heads / cache.kv_heads;
  QueryGroup group;
  group.stride = (head_dim + 15) / 16 * 16;
  const int capacity = kGroupFloats / group.stride < kMaxGroupRows ? kGroupFloats / group.stride : kMaxGroupRows;
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
      group.first[r] = shape.window > 0 && position >= shape.window ? position - shape.window + 1 : 0;
      group.greatest[r] = -__builtin_inff();
      F32x16::zero().store(group.lane_sums[r]);
      for (int d = 0; d < group.stride; d += 16) {
        const int count = head_dim - d < 16 ? head_dim - d : 16;
        (load_first(q + element(i) + d, count) * factor).store(group.query + r * group.stride + d);
        F32x16::zero().store(group.sums + r * group.stride + d);
      }
    }
    attend_group(cache, shape, slot, kv_head, group);
    for (int r = 0; r < group.rows; ++r) {
      const F32x16 total = F32x16::set1(hsum(F32x16::load(group.lane_sums[r])));
      for (int d = 0; d < head_dim; d += 16) {
        const int count = head_dim - d < 16 ? head_dim - d : 16;
        store_first(F32x16::load(group.sums + r * group.stride + d) / total, out + element(begin + r) + d, count);
      }
    }
    begin += group.rows;
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
