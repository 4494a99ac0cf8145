// The linear layer: any weight type, any number of rows, any range of output groups.
//
// Row tiles are the inner loop, so that the weights of a group come from memory once and from the first cache
// after that. A row's sums depend on its own activations alone.
#pragma once

#include "kernel_table.hpp"
#include "linear_float.hpp"
#include "linear_outputs.hpp"
#include "linear_quantised.hpp"

namespace verispec::VERISPEC_ISA_NS {

// A linear layer's weights, groups and destination, whatever its rows.
struct LinearJob {
  const PackedMatrix& w;
  int64_t group_bytes;
  const float* bias;
  float* out;
  int64_t ld;
};

// A stream shorter than this spends too much of its length before its prefetching has caught up.
constexpr int64_t kLeastStreamBytes = 16 << 10;

// Rows first + m (m < M) of a tile of `tile_rows` rows; `row` is their first row in the output.
struct TileRows {
  const uint8_t* tile;
  int tile_rows;
  int first;
  int64_t row;
};

// The groups from `begin` on in kStreams equal runs read side by side, as far as that goes before `end`;
// returns the first group left over.
template <WeightType T, int M, int kStreams>
inline int64_t stream_groups(const LinearJob& job, int64_t begin, int64_t end, const TileRows& rows) {
  const int64_t each = (end - begin) / kStreams;
  F32x16 sums[kStreams * M];
  for (int64_t g = begin; g < begin + each; ++g) {
    quantised_rows<T, M, kStreams>(job.w.data + g * job.group_bytes, each * job.group_bytes, job.w.k / kBlock,
                                   rows.tile, rows.tile_rows, rows.first, sums);
    for (int s = 0; s < kStreams; ++s) {
      store_outputs(sums + s * M, M, g + s * each, job.w.n, job.bias, job.out + rows.row * job.ld, job.ld);
    }
  }
  return begin + kStreams * each;
}

// Groups [begin, end) for M rows of a tile.
template <WeightType T, int M>
inline void quantised_groups(const LinearJob& job, int64_t begin, int64_t end, const TileRows& rows) {
  constexpr int kStreams = streams_for(M);
  if constexpr (kStreams >= 4) {
    if ((end - begin) / 4 * job.group_bytes >= kLeastStreamBytes)
      begin = stream_groups<T, M, 4>(job, begin, end, rows);
  }
  if constexpr (kStreams >= 2) begin = stream_groups<T, M, 2>(job, begin, end, rows);
  stream_groups<T, M, 1>(job, begin, end, rows);
}

template <WeightType T, int M = kDotRows>
inline void quantised_groups_of(int count, const LinearJob& job, int64_t begin, int64_t end,
                                const TileRows& rows) {
  if constexpr (M == 1) {
    quantised_groups<T, 1>(job, begin, end, rows);
  } else if (count == M) {
    quantised_groups<T, M>(job, begin, end, rows);
  } else {
    quantised_groups_of<T, M - 1>(count, job, begin, end, rows);
  }
}

// Rows whose activations stay in the second cache while a range of groups is read.
constexpr int kPanelRows = 64;

// Rows are cut into equal parts of at most kDotRows.
inline int rows_per_part(int rows) {
  const int parts = (rows + kDotRows - 1) / kDotRows;
  return (rows + parts - 1) / parts;
}

// One group for the tile of rows that begins at `row`.
template <WeightType T>
inline void quantised_tile(const LinearJob& job, int64_t group, const Activations& in, int row, int m) {
  const int rows = m - row < kMaxTileRows ? m - row : kMaxTileRows;
  const uint8_t* tile = in.quantised + row * (job.w.k / kBlock) * kQuantisedBlockBytes;
  const int step = rows_per_part(rows);
  for (int first = 0; first < rows; first += step) {
    const int count = rows - first < step ? rows - first : step;
    quantised_groups_of<T>(count, job, group, group + 1, {tile, rows, first, row + first});
  }
}

template <WeightType T>
void linear_quantised(const PackedMatrix& w, int m, const Activations& in, int64_t group_begin,
                      int64_t group_end, const float* bias, float* out, int64_t ld) {
  constexpr QuantisedLayout kShape = kLayout<T>;
  const int64_t blocks = w.k / kBlock;
  const int64_t units = (blocks + kShape.unit_blocks - 1) / kShape.unit_blocks;
  const LinearJob job = {w, units * kShape.unit_bytes(), bias, out, ld};
  if (m <= kDotRows) {
    return quantised_groups_of<T>(m, job, group_begin, group_end, {in.quantised, m, 0, 0});
  }
  for (int panel = 0; panel < m; panel += kPanelRows) {
    const int end = m - panel < kPanelRows ? m : panel + kPanelRows;
    for (int64_t g = group_begin; g < group_end; ++g) {
      for (int row = panel; row < end; row += kMaxTileRows) quantised_tile<T>(job, g, in, row, m);
    }
  }
}

template <WeightType T, int M = kDotRows>
inline void float_rows_of(int count, const uint8_t* group, int64_t k, const float* x, F32x16* sums) {
  if constexpr (M == 1) {
    float_rows<T, 1>(group, k, x, sums);
  } else if (count == M) {
    float_rows<T, M>(group, k, x, sums);
  } else {
    float_rows_of<T, M - 1>(count, group, k, x, sums);
  }
}

template <WeightType T>
void linear_float(const PackedMatrix& w, int m, const Activations& in, int64_t group_begin, int64_t group_end,
                  const float* bias, float* out, int64_t ld) {
  const int64_t group_bytes = (w.k * FloatColumn<T>::kBytes + 63) / 64 * 64;
  const int step = rows_per_part(m);
  F32x16 sums[kDotRows];
  for (int64_t g = group_begin; g < group_end; ++g) {
    for (int row = 0; row < m; row += step) {
      const int count = m - row < step ? m - row : step;
      float_rows_of<T>(count, w.data + g * group_bytes, w.k, in.x + row * w.k, sums);
      store_outputs(sums, count, g, w.n, bias, out + row * ld, ld);
    }
  }
}

inline void linear(const PackedMatrix& w, int m, const Activations& in, int64_t group_begin,
                   int64_t group_end, const float* bias, float* out, int64_t ld) {
  using Kernel =
      void (*)(const PackedMatrix&, int, const Activations&, int64_t, int64_t, const float*, float*, int64_t);
  static constexpr Kernel kKernels[] = {
      // in the order of WeightType
      linear_float<WeightType::F32>,      linear_float<WeightType::F16>,
      linear_float<WeightType::BF16>,     linear_quantised<WeightType::Q8_0>,
      linear_quantised<WeightType::Q4_0>, linear_quantised<WeightType::Q4_1>,
      linear_quantised<WeightType::Q5_0>, linear_quantised<WeightType::Q5_1>,
      linear_quantised<WeightType::Q4_K>, linear_quantised<WeightType::Q5_K>,
      linear_quantised<WeightType::Q6_K>};
  kKernels[static_cast<int32_t>(w.type)](w, m, in, group_begin, group_end, bias, out, ld);
}

}  // namespace verispec::VERISPEC_ISA_NS
