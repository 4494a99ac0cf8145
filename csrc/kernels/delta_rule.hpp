// The gated delta rule, row by row (Yang et al., "Gated Delta Networks", the recurrent form).
//
// For every row and value head, with S the state before it:
//   missing = b * (v - a * (S^T k));  S = a * S + k missing^T;  out = S^T q
// Lanes are value columns, so that no sum runs across them; sums over the key run in ascending order.
//
// The rows of a chain work on the place of the last one, panel by panel in the inner cache. Other places that
// are to keep a state are only written, and past the caches where those could not hold them: a store through
// them would read from memory first what it overwrites.
#pragma once

#include "kernel_table.hpp"
#include "math.hpp"
#include "norm.hpp"

namespace verispec::VERISPEC_ISA_NS {

constexpr int kDeltaRows = 16;  // rows whose queries, keys and gates are prepared together: one lane each

#if defined(__AVX512F__)
constexpr int kStateVectors = 4;  // columns held in registers, in vectors of 16
#elif defined(__AVX2__)
constexpr int kStateVectors = 2;
#else
constexpr int kStateVectors = 1;
#endif

struct DeltaTile {
  alignas(64) float query[kDeltaRows][kMaxKeyDim];
  alignas(64) float key[kDeltaRows][kMaxKeyDim];
  alignas(64) float decay[kDeltaRows];  // a
  alignas(64) float share[kDeltaRows];  // b
};

// out = x / sqrt(sum of squares + epsilon) * factor
inline void l2_norm(const float* x, int64_t n, float epsilon, float factor, float* out) {
  const float inverse = 1.0f / __builtin_sqrtf(sum_of_squares(x, n) + epsilon);
  const F32x16 f = F32x16::set1(inverse * factor);
  for (int64_t i = 0; i < n; i += 16) store_first(load_first(x + i, n - i) * f, out + i, n - i);
}

// Rows [begin, begin + count) of the chain for one value head.
inline void prepare_rows(const DeltaShape& shape, const DeltaInputs& in, int head, int begin, int count,
                         DeltaTile& tile) {
  const int key_head = shape.grouped ? head / (shape.value_heads / shape.key_heads) : head % shape.key_heads;
  const float query_scale = 1.0f / __builtin_sqrtf(static_cast<float>(shape.key_dim));
  alignas(64) float alpha[kDeltaRows] = {};
  alignas(64) float beta[kDeltaRows] = {};
  for (int r = 0; r < count; ++r) {
    const int64_t row = begin + r;
    const float* query = in.qkv + row * delta_width(shape) + int64_t{key_head} * shape.key_dim;
    l2_norm(query, shape.key_dim, shape.epsilon, query_scale, tile.query[r]);
    l2_norm(query + key_width(shape), shape.key_dim, shape.epsilon, 1.0f, tile.key[r]);
    alpha[r] = in.alpha[row * shape.value_heads + head];
    beta[r] = in.beta[row * shape.value_heads + head];
  }
  const F32x16 time = softplus(F32x16::load(alpha) + F32x16::set1(shape.dt_bias[head]));
  exp(F32x16::set1(shape.decay[head]) * time).store(tile.decay);
  times_sigmoid(F32x16::set1(1.0f), F32x16::load(beta)).store(tile.share);
}

// How the lanes of a vector of columns are reached: all sixteen, or the first few at the end of a head.
struct WholeLanes {
  F32x16 load(const float* p) const { return F32x16::load(p); }
  void store(F32x16 v, float* p) const { v.store(p); }
  void keep(F32x16 v, float* p) const { v.store(p); }
};
struct StreamedLanes : WholeLanes {
  void keep(F32x16 v, float* p) const { v.stream(p); }
};
struct FirstLanes {
  int64_t n;
  F32x16 load(const float* p) const { return load_first(p, n); }
  void store(F32x16 v, float* p) const { store_first(v, p, n); }
  void keep(F32x16 v, float* p) const { store_first(v, p, n); }
};

// Where a row finds its state, where it leaves it, and where it keeps a copy (or null).
struct StatePlaces {
  const float* from;
  float* to;
  float* copy;

  StatePlaces at(int64_t offset) const {
    return {from + offset, to + offset, copy ? copy + offset : nullptr};
  }
};

// One row and 16 * kVectors columns, which are `stride` apart from one element of the key to the next. The
// state may stay where it is.
template <int kVectors, bool kCopied, class Lanes>
inline void delta_columns(const StatePlaces& places, int64_t stride, int key_dim, const DeltaTile& tile,
                          int r, const float* value, float* out, Lanes lanes) {
  constexpr int kAhead = 1024;  // floats: further panels are read from memory while this one is used
  const float* key = tile.key[r];
  const float* query = tile.query[r];
  const F32x16 decay = F32x16::set1(tile.decay[r]);
  F32x16 sums[kVectors], missing[kVectors];
  for (int v = 0; v < kVectors; ++v) sums[v] = F32x16::zero();
  for (int d = 0; d < key_dim; ++d) {
    const F32x16 k = F32x16::set1(key[d]);
    for (int v = 0; v < kVectors; ++v) {
      const float* place = places.from + d * stride + 16 * v;
      __builtin_prefetch(place + kAhead);
      sums[v] = fma(k, lanes.load(place), sums[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    missing[v] = fnma(decay, sums[v], lanes.load(value + 16 * v)) * F32x16::set1(tile.share[r]);
    sums[v] = F32x16::zero();
  }
  for (int d = 0; d < key_dim; ++d) {
    const F32x16 k = F32x16::set1(key[d]);
    const F32x16 q = F32x16::set1(query[d]);
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = d * stride + 16 * v;
      const F32x16 state = fma(k, missing[v], lanes.load(places.from + at) * decay);
      lanes.store(state, places.to + at);
      if constexpr (kCopied) lanes.keep(state, places.copy + at);
      sums[v] = fma(q, state, sums[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) lanes.store(sums[v], out + 16 * v);
}

template <bool kCopied, class Whole>
inline void panel_columns(const StatePlaces& places, int width, int key_dim, const DeltaTile& tile, int r,
                          const float* value, float* out, Whole whole) {
  int c = 0;
  for (; c + 16 * kStateVectors <= width; c += 16 * kStateVectors)
    delta_columns<kStateVectors, kCopied>(places.at(c), width, key_dim, tile, r, value + c, out + c, whole);
  for (; c + 16 <= width; c += 16)
    delta_columns<1, kCopied>(places.at(c), width, key_dim, tile, r, value + c, out + c, whole);
  if (c < width)
    delta_columns<1, kCopied>(places.at(c), width, key_dim, tile, r, value + c, out + c,
                              FirstLanes{width - c});
}

// One row and one panel of `width` columns.
inline void delta_panel(const StatePlaces& places, bool large, int width, int key_dim, const DeltaTile& tile,
                        int r, const float* value, float* out) {
  const bool lines = reinterpret_cast<uintptr_t>(places.copy) % 64 == 0 && width % 16 == 0;
  if (places.copy == nullptr) {
    panel_columns<false>(places, width, key_dim, tile, r, value, out, WholeLanes{});
  } else if (large && lines) {
    panel_columns<true>(places, width, key_dim, tile, r, value, out, StreamedLanes{});
  } else {
    panel_columns<true>(places, width, key_dim, tile, r, value, out, WholeLanes{});
  }
}

inline void delta_rule(const DeltaShape& shape, const StateLayer& states, const ChainRows& rows,
                       const DeltaInputs& in, int head, int panel_begin, int panel_end, float* out,
                       int64_t ld) {
  DeltaTile tile;
  const int64_t last = rows.to[rows.m - 1] * states.stride;
  for (int begin = 0; begin < rows.m; begin += kDeltaRows) {
    const int count = rows.m - begin < kDeltaRows ? rows.m - begin : kDeltaRows;
    prepare_rows(shape, in, head, begin, count, tile);
    for (int panel = panel_begin; panel < panel_end; ++panel) {
      const int column = panel * kStatePanel;
      const int width = shape.value_dim - column < kStatePanel ? shape.value_dim - column : kStatePanel;
      float* state = states.data + (int64_t{head} * shape.value_dim + column) * shape.key_dim;
      for (int r = 0; r < count; ++r) {
        const int64_t row = begin + r;
        const float* value = in.qkv + row * delta_width(shape) + 2 * key_width(shape) +
                             int64_t{head} * shape.value_dim + column;
        const int64_t to = rows.to[row] * states.stride;
        const StatePlaces places = {state + (row == 0 ? rows.from[0] * states.stride : last), state + last,
                                    rows.kept[row] && to != last ? state + to : nullptr};
        delta_panel(places, states.large, width, shape.key_dim, tile, r, value, out + row * ld + column);
      }
    }
  }
  end_streams();
}

}  // namespace verispec::VERISPEC_ISA_NS
