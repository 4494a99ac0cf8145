// Activations quantised to int8, 32 columns to a scale, in the order in which the linear kernels read them.
//
// Tiles of kMaxTileRows rows (the last one has what is left); in a tile of r rows, for every block of 32
// columns:
//   int8  values[r][32]      round to nearest even of x * (127 / greatest magnitude), so within -127..127
//   f32   scale[r]           greatest magnitude / 127
//   f32   scaled_sum[r]      scale * (sum of values), what a weight minimum is multiplied by
//   int32 offset[r]          -128 * (sum of values), the correction of codes centred on 128
//   int32 low_offset[r]      the same of columns 0..15
//   int32 high_offset[r]     the same of columns 16..31
// A block with an infinity or a NaN has scale NaN and values 0; one too small to divide by has all zeros.
#pragma once

#include "bytes.hpp"
#include "kernel_table.hpp"

namespace verispec::VERISPEC_ISA_NS {

// Places of rows [first, first + ...) of one block of a tile; `rows` is the number of rows in the tile.
struct QuantisedRows {
  const int8_t* values;
  const float* scale;
  const float* scaled_sum;
  const int32_t* offset;
  const int32_t* low_offset;
  const int32_t* high_offset;

  QuantisedRows(const uint8_t* block, int rows, int first)
      : values(reinterpret_cast<const int8_t*>(block) + first * kBlock),
        scale(reinterpret_cast<const float*>(block + rows * kBlock) + first),
        scaled_sum(scale + rows),
        offset(reinterpret_cast<const int32_t*>(scaled_sum + rows)),
        low_offset(offset + rows),
        high_offset(low_offset + rows) {}
};

constexpr float kSmallestMagnitude = 0x1p-120f;  // 127 divided by less could overflow

// The greatest magnitude of a block, NaN when it holds an infinity or a NaN.
inline float block_magnitude(F32x16 low, F32x16 high) {
  const F32x16 infinity = F32x16::set1(__builtin_inff());
  const bool finite = (lane_bits(abs(low) < infinity) & lane_bits(abs(high) < infinity)) == 0xffff;
  return finite ? hmax(max(abs(low), abs(high))) : __builtin_nanf("");
}

// One block of row r of a tile of `rows` rows; `place` is where the tile has the block.
inline void quantize_block(const float* x, int rows, int r, uint8_t* place) {
  F32x16 low = F32x16::load(x);
  F32x16 high = F32x16::load(x + 16);
  const float greatest = block_magnitude(low, high);
  float scale = greatest < kSmallestMagnitude ? 0.0f : __builtin_nanf("");
  if (greatest >= kSmallestMagnitude) {
    const F32x16 steps = F32x16::set1(127.0f / greatest);
    scale = greatest / 127.0f;
    low = low * steps;
    high = high * steps;
  } else {
    low = high = F32x16::zero();
  }
  int32_t sum_low, sum_high;
  store_i8(round_i32(low), round_i32(high), reinterpret_cast<int8_t*>(place) + r * kBlock, &sum_low,
           &sum_high);
  float* numbers = reinterpret_cast<float*>(place + rows * kBlock) + r;
  int32_t* offsets = reinterpret_cast<int32_t*>(numbers + 2 * rows);
  numbers[0] = scale;
  numbers[rows] = scale * static_cast<float>(sum_low + sum_high);
  offsets[0] = -128 * (sum_low + sum_high);
  offsets[rows] = -128 * sum_low;
  offsets[2 * rows] = -128 * sum_high;
}

inline void quantize_row(const float* x, int64_t k, int row, int m, uint8_t* quantised) {
  const int64_t blocks = k / kBlock;
  const int tile = row / kMaxTileRows;
  const int left = m - tile * kMaxTileRows;
  const int rows = left < kMaxTileRows ? left : kMaxTileRows;
  uint8_t* place = quantised + quantised_bytes(tile * kMaxTileRows, k);
  for (int64_t b = 0; b < blocks; ++b) {
    quantize_block(x + b * kBlock, rows, row % kMaxTileRows, place + b * rows * kQuantisedBlockBytes);
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
