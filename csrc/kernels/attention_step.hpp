// One step of attention: the online softmax of a group of query rows over 64 keys.
#pragma once

#include "attention_tiles.hpp"
#include "elementwise.hpp"

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

// Part `part` of `parts` of the stored blocks of a step that will be converted next.
inline void fetch_part(const KeyStep<uint16_t>& next, int part, int parts) {
  constexpr int kLine = 64 / sizeof(uint16_t);
  const int lines = next.head_dim * kKeyBlock / kLine;
  for (int b = 0; b < kStepBlocks; ++b) {
    for (int line = lines * part / parts; next.keys[b] && line < lines * (part + 1) / parts; ++line) {
      fetch_ahead(next.keys[b], line * kLine);
      fetch_ahead(next.values[b], line * kLine);
    }
  }
}

// All rows of the group over one step. Between tiles of converted keys the next step's lines are fetched.
template <typename Element>
inline void attend_step(const KeyStep<Element>& keys, const KeyStep<uint16_t>& next, int64_t step,
                        float softcap, QueryGroup& group) {
  int at = 0;
  for (; at + kRowTile <= group.rows; at += kRowTile) {
    attend_tile<kRowTile>(keys, step, softcap, group, at);
    if (sizeof(Element) == sizeof(float)) fetch_part(next, at / kRowTile, group.rows / kRowTile);
  }
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

}  // namespace verispec::VERISPEC_ISA_NS
