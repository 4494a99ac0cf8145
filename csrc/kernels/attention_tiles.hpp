// The two products of attention over one step of keys, held in registers for a tile of query rows.
//
// The order of every sum is fixed: a score is one chain over the head's dimensions, an output element one
// chain over the keys in position order. Tile sizes follow the register file and do not change any result.
#pragma once

#include "kernel_table.hpp"
#include "vec16.hpp"

namespace verispec::VERISPEC_ISA_NS {

constexpr int kStepBlocks = 4;  // key blocks per softmax step, aligned by absolute position
constexpr int kStepKeys = kStepBlocks * kKeyBlock;

#if defined(__AVX512F__)
constexpr int kRowTile = 6;
constexpr int kKeyTile = 4;                // key blocks scored at once
constexpr int kValueTile = 4;              // vectors of 16 head dimensions accumulated at once
constexpr int kDirectRows = 8 * kRowTile;  // query rows up to which converting keys first does not pay
#elif defined(__AVX2__)
constexpr int kRowTile = 6;
constexpr int kKeyTile = 1;
constexpr int kValueTile = 1;
constexpr int kDirectRows = 4 * kRowTile;
#else
constexpr int kRowTile = 4;
constexpr int kKeyTile = 1;
constexpr int kValueTile = 1;
constexpr int kDirectRows = kRowTile;
#endif

inline F32x16 load_lanes(const uint16_t* p) { return F32x16::from_f16(p); }
inline F32x16 load_lanes(const float* p) { return F32x16::load(p); }

// The cache is read from memory once per pass: each product fetches what the next one will read. Converted
// steps are in the inner caches already.
inline void fetch_ahead(const uint16_t* start, int offset) { __builtin_prefetch(start + offset); }
inline void fetch_ahead(const float*, int) {}

constexpr int kValuePanel = 64;  // head dimensions that lie together in converted values

// The blocks of one step; Element is f16 as stored, or f32 where a wide tile has converted them once.
// keys[b] is [head_dim][16]; dimension d of a key's value lies at
// values[b] + d / kValuePanel * panel_stride + key * key_stride + d % kValuePanel.
template <typename Element>
struct KeyStep {
  const Element* keys[kStepBlocks];
  const Element* values[kStepBlocks];
  const Element* next_keys[kStepBlocks];  // of the step that follows; only fetched ahead
  int head_dim;
  int panel_stride;
  int key_stride;
};

// scores[r][16 * b + lane] = sum over d of query[r][d] * key[d], for blocks [first, first + Blocks).
template <int Rows, int Blocks, typename Element>
inline void score_tile(const KeyStep<Element>& step, int first, const float* query, int64_t query_stride,
                       float (*scores)[kStepKeys]) {
  F32x16 sums[Rows][Blocks];
  for (int r = 0; r < Rows; ++r)
    for (int b = 0; b < Blocks; ++b) sums[r][b] = F32x16::zero();
  for (int d = 0; d < step.head_dim; ++d) {
    F32x16 key[Blocks];
    for (int b = 0; b < Blocks; ++b) {
      key[b] = load_lanes(step.keys[first + b] + d * kKeyBlock);
      fetch_ahead(step.values[first + b], d * kKeyBlock);
    }
    for (int r = 0; r < Rows; ++r) {
      const F32x16 q = F32x16::set1(query[r * query_stride + d]);
      for (int b = 0; b < Blocks; ++b) sums[r][b] = fma(key[b], q, sums[r][b]);
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int b = 0; b < Blocks; ++b) sums[r][b].store(scores[r] + (first + b) * kKeyBlock);
}

template <int Rows, typename Element>
inline void score_blocks(const KeyStep<Element>& step, int first, int end, const float* query,
                         int64_t query_stride, float (*scores)[kStepKeys]) {
  for (; first + kKeyTile <= end; first += kKeyTile)
    score_tile<Rows, kKeyTile>(step, first, query, query_stride, scores);
  for (; first < end; ++first) score_tile<Rows, 1>(step, first, query, query_stride, scores);
}

// sums[r][16 * Vectors] = sums[r] * factors[r] + sum over keys [begin, end) of weights[r][key] * value[key].
template <int Rows, int Vectors, typename Element>
inline void value_tile(const KeyStep<Element>& step, int begin, int end, int dimension,
                       const float (*weights)[kStepKeys], const float* factors, float* sums, int64_t stride) {
  F32x16 held[Rows][Vectors];
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Vectors; ++v)
      held[r][v] = F32x16::load(sums + r * stride + 16 * v) * F32x16::set1(factors[r]);
  const int offset = dimension / kValuePanel * step.panel_stride + dimension % kValuePanel;
  for (int key = begin; key < end; ++key) {
    const int from = key % kKeyBlock * step.key_stride + offset;
    const Element* row = step.values[key / kKeyBlock] + from;
    for (int v = 0; v < Vectors; v += 2) fetch_ahead(step.next_keys[key / kKeyBlock], from + 16 * v);
    F32x16 value[Vectors];
    for (int v = 0; v < Vectors; ++v) value[v] = load_lanes(row + 16 * v);
    for (int r = 0; r < Rows; ++r) {
      const F32x16 weight = F32x16::set1(weights[r][key]);
      for (int v = 0; v < Vectors; ++v) held[r][v] = fma(weight, value[v], held[r][v]);
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Vectors; ++v) held[r][v].store(sums + r * stride + 16 * v);
}

template <int Rows, typename Element>
inline void add_values(const KeyStep<Element>& step, int begin, int end, const float (*weights)[kStepKeys],
                       const float* factors, float* sums, int64_t stride) {
  int d = 0;
  for (; d + 16 * kValueTile <= step.head_dim; d += 16 * kValueTile)
    value_tile<Rows, kValueTile>(step, begin, end, d, weights, factors, sums + d, stride);
  for (; d < step.head_dim; d += 16)
    value_tile<Rows, 1>(step, begin, end, d, weights, factors, sums + d, stride);
}

}  // namespace verispec::VERISPEC_ISA_NS
