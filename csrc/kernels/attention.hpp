// Attention of rows over the KV cache: online softmax over steps of 64 keys aligned by absolute position.
//
// A row's result is a function of its query, its visible keys and values, its position and the window alone:
//   for each step that holds a visible key, in position order:
//     m' = max(m, scores);  p = exp(scores - m');  c = exp(m - m')
//     lane sums = lane sums * c + ((p0 + p1) + (p2 + p3));  out = out * c, then + p[key] * value[key] key by
//     key
//   out / (fixed tree over the lane sums)
// Lanes of keys outside [first, last] are replaced before use and their values are never read into a sum, so
// that whatever a rejected row left there has no effect.
#pragma once

#include "attention_tiles.hpp"
#include "elementwise.hpp"
#include "kv_cache.hpp"

namespace verispec::VERISPEC_ISA_NS {

constexpr int kMaxGroupRows = 96;                  // query rows that share one conversion of keys and values
constexpr int kGroupFloats = kMaxGroupRows * 256;  // room for their queries; fewer rows for wider heads

// Query rows (a row of the pass and one of its heads) of one slot and kv head, and their running softmax.
struct QueryGroup {
  int rows;
  int stride;                    // head_dim rounded up to 16
  int64_t first[kMaxGroupRows];  // visible positions [first, last]
  int64_t last[kMaxGroupRows];
  float greatest[kMaxGroupRows + 16];  // a tile loads and stores sixteen
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
  return {static_cast<int>(begin < 0           ? 0
                           : begin > kStepKeys ? kStepKeys
                                               : begin),
          static_cast<int>(end > kStepKeys ? kStepKeys
                           : end < 0       ? 0
                                           : end)};
}

// Scores as the softmax sees them: capped, and -inf where the row may not look.
inline void hide_keys(float* scores, KeyRange keys, float softcap) {
  const F32x16 hidden = F32x16::set1(-__builtin_inff());
  for (int b = 0; b < kStepBlocks; ++b) {
    const int begin = keys.begin - b * kKeyBlock;
    const int end = keys.end - b * kKeyBlock;
    F32x16 s = hidden;
    if (begin < kKeyBlock && end > 0) {
      s = F32x16::load(scores + b * kKeyBlock);
      if (softcap != 0.0f) s = softcap_lanes(s, F32x16::set1(softcap));
      s = select(lanes(begin > 0 ? begin : 0, end < kKeyBlock ? end : kKeyBlock), s, hidden);
    }
    s.store(scores + b * kKeyBlock);
  }
}

// The softmax of a tile's rows over one step: scores become weights, the rows' greatest scores and lane sums
// move on, factors[r] is what the rows' sums so far are worth now. Loops run over all rows stage by stage,
// because one row is a long chain of dependent operations.
template <int Rows>
inline void weigh_keys(float (*scores)[kStepKeys], const KeyRange* visible, float softcap, QueryGroup& group,
                       int at, float* factors) {
  alignas(64) float tops[16];
  F32x16::set1(-__builtin_inff()).store(tops);
  for (int r = 0; r < Rows; ++r) {
    if (visible[r].begin >= visible[r].end) continue;
    if (softcap != 0.0f || visible[r].begin > 0 || visible[r].end < kStepKeys)
      hide_keys(scores[r], visible[r], softcap);
    const F32x16 low = max(F32x16::load(scores[r]), F32x16::load(scores[r] + 16));
    const F32x16 high = max(F32x16::load(scores[r] + 32), F32x16::load(scores[r] + 48));
    tops[r] = hmax(max(low, high));
  }
  const F32x16 before = F32x16::load(group.greatest + at);
  const F32x16 greatest = max(before, F32x16::load(tops));
  greatest.store(group.greatest + at);  // lanes past the tile keep their value
  exp_nonpositive(before - greatest).store(factors);
  for (int r = 0; r < Rows; ++r) {
    if (visible[r].begin >= visible[r].end) continue;
    const F32x16 top = F32x16::set1(group.greatest[at + r]);
    F32x16 weights[kStepBlocks];
    for (int b = 0; b < kStepBlocks; ++b) {
      weights[b] = exp_nonpositive(F32x16::load(scores[r] + b * kKeyBlock) - top);
      weights[b].store(scores[r] + b * kKeyBlock);
    }
    const F32x16 sum = (weights[0] + weights[1]) + (weights[2] + weights[3]);
    float* sums = group.lane_sums[at + r];
    fma(F32x16::load(sums), F32x16::set1(factors[r]), sum).store(sums);
  }
}

// out * factors + weights * values for the rows of a tile. Keys that every row sees go through the register
// tile; what some rows see before or after goes row by row.
template <int Rows, typename Element>
inline void add_visible_values(const KeyStep<Element>& keys, const KeyRange* visible,
                               const float (*weights)[kStepKeys], float* factors, float* sums, int stride) {
  KeyRange common{0, kStepKeys};
  for (int r = 0; r < Rows; ++r) {
    if (visible[r].begin > common.begin) common.begin = visible[r].begin;
    if (visible[r].end < common.end) common.end = visible[r].end;
  }
  const bool shared = common.begin < common.end;
  for (int r = 0; r < Rows; ++r) {
    const int end = shared ? common.begin : visible[r].end;
    if (visible[r].begin >= end) continue;
    add_values<1>(keys, visible[r].begin, end, weights + r, factors + r, sums + r * stride, stride);
    factors[r] = 1.0f;
  }
  if (!shared) return;
  add_values<Rows>(keys, common.begin, common.end, weights, factors, sums, stride);
  const float one = 1.0f;
  for (int r = 0; r < Rows; ++r)
    if (common.end < visible[r].end)
      add_values<1>(keys, common.end, visible[r].end, weights + r, &one, sums + r * stride, stride);
}

// Rows [at, at + Rows) of the group over one step.
template <int Rows, typename Element>
inline void attend_tile(const KeyStep<Element>& keys, int64_t step, float softcap, QueryGroup& group,
                        int at) {
  KeyRange visible[Rows];
  KeyRange any{kStepKeys, 0};
  for (int r = 0; r < Rows; ++r) {
    const KeyRange v = visible[r] = visible_keys(group, at + r, step);
    if (v.begin >= v.end) continue;
    any = {v.begin < any.begin ? v.begin : any.begin, v.end > any.end ? v.end : any.end};
  }
  if (any.begin >= any.end) return;
  const int64_t start = static_cast<int64_t>(at) * group.stride;
  alignas(64) float scores[Rows][kStepKeys];
  alignas(64) float factors[16];
  score_blocks<Rows>(keys, any.begin / kKeyBlock, (any.end + kKeyBlock - 1) / kKeyBlock, group.query + start,
                     group.stride, scores);
  weigh_keys<Rows>(scores, visible, softcap, group, at, factors);
  add_visible_values<Rows>(keys, visible, scores, factors, group.sums + start, group.stride);
}

template <typename Element>
inline void attend_step(const KeyStep<Element>& keys, int64_t step, float softcap, QueryGroup& group) {
  int at = 0;
  for (; at + kRowTile <= group.rows; at += kRowTile) attend_tile<kRowTile>(keys, step, softcap, group, at);
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
  KeyStep<uint16_t> stored{{}, {}, {}, cache.head_dim, kValuePanel, cache.head_dim};
  for (int b = begin; b < end; ++b) {
    const int64_t offset = block_offset(cache, slot, step * kStepBlocks + b, kv_head);
    stored.keys[b] = cache.keys + offset;
    stored.values[b] = cache.values + offset;
    stored.next_keys[b] = cache.keys + block_offset(cache, slot, (step + 1) * kStepBlocks + b, kv_head);
  }
  return stored;
}

// The same in f32. Values are laid out by panels of dimensions: rows a power of two apart would compete for
// the same few cache sets.
inline KeyStep<float> convert_step(const KeyStep<uint16_t>& stored, int begin, int end, ConvertedStep& room) {
  const int head_dim = stored.head_dim;
  KeyStep<float> step{{}, {}, {}, head_dim, kStepKeys * kValuePanel, kValuePanel};
  for (int b = begin; b < end; ++b) {
    float* keys = room.keys + static_cast<int64_t>(b) * kKeyBlock * head_dim;
    float* values = room.values + b * kKeyBlock * kValuePanel;
    for (int d = 0; d < head_dim; ++d)
      F32x16::from_f16(stored.keys[b] + d * kKeyBlock).store(keys + d * kKeyBlock);
    for (int key = 0; key < kKeyBlock; ++key) {
      const uint16_t* from = stored.values[b] + key * head_dim;
      for (int d = 0; d < head_dim; d += 16) {
        uint16_t part[16] = {};
        const bool whole = d + 16 <= head_dim;
        for (int i = d; !whole && i < head_dim; ++i) part[i - d] = from[i];
        F32x16::from_f16(whole ? from + d : part)
            .store(values + d / kValuePanel * step.panel_stride + key * kValuePanel + d % kValuePanel);
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
      attend_step(convert_step(stored, begin, end, room), step, shape.softcap, group);
    }
  }
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
      group.first[r] = shape.window > 0 && position >= shape.window ? position - shape.window + 1 : 0;
      group.greatest[r] = -__builtin_inff();
      F32x16::zero().store(group.lane_sums[r]);
      for (int d = 0; d < group.stride; d += 16) {
        (load_first(q + element(i) + d, head_dim - d) * factor).store(group.query + r * group.stride + d);
        F32x16::zero().store(group.sums + r * group.stride + d);
      }
    }
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
