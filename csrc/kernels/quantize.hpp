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

inline void quantize_block(const float* x, int8_t* values, float* scale, float* scaled_sum, int32_t* offset,
                           int32_t* low_offset, int32_t* high_offset) {
  const F32x16 low = F32x16::load(x);
  const F32x16 high = F32x16::load(x + 16);
  const F32x16 infinity = F32x16::set1(__builtin_inff());
  const bool finite = (lane_bits(abs(low) < infinity) & lane_bits(abs(high) < infinity)) == 0xffff;
  const float greatest = hmax(max(abs(low), abs(high)));
  const bool usable = finite && greatest >= kSmallestMagnitude;
  const F32x16 inverse = F32x16::set1(usable ? 127.0f / greatest : 0.0f);
  const F32x16 zero = F32x16::zero();
  const I32x16 q_low = round_i32(usable ? low * inverse : zero);
  const I32x16 q_high = round_i32(usable ? high * inverse : zero);
  store_i8(q_low, values);
  store_i8(q_high, values + 16);
  const int32_t sum_low = hsum(q_low);
  const int32_t sum_high = hsum(q_high);
  *scale = usable ? greatest / 127.0f : finite ? 0.0f : __builtin_nanf("");
  *scaled_sum = *scale * static_cast<float>(sum_low + sum_high);
  *offset = -128 * (sum_low + sum_high);
  *low_offset = -128 * sum_low;
  *high_offset = -128 * sum_high;
}

inline void quantize_row(const float* x, int64_t k, int row, int m, uint8_t* quantised) {
  const int64_t blocks = k / kBlock;
  const int tile = row / kMaxTileRows;
  const int left = m - tile * kMaxTileRows;
  const int rows = left < kMaxTileRows ? left : kMaxTileRows;
  const int r = row % kMaxTileRows;
  uint8_t* place = quantised + quantised_bytes(tile * kMaxTileRows, k);
  for (int64_t b = 0; b < blocks; ++b, place += rows * kQuantisedBlockBytes) {
    float* numbers = reinterpret_cast<float*>(place + rows * kBlock) + r;
    int32_t* offsets = reinterpret_cast<int32_t*>(numbers + 2 * rows);
    quantize_block(x + b * kBlock, reinterpret_cast<int8_t*>(place) + r * kBlock, numbers, numbers + rows,
                   offsets, offsets + rows, offsets + 2 * rows);
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
