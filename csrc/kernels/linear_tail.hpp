// From the exact integer sums of a block to the f32 result: the same operations in the same order for every
// row count and instruction set, so that they alone decide the bits.
#pragma once

#include "quantize.hpp"
#include "weight_blocks.hpp"

namespace verispec::VERISPEC_ISA_NS {

// The scales of one block of 16 output rows, converted once and used for all activation rows.
template <class Block, Tail = Block::kTail>
struct BlockScales;

template <class Block>
struct BlockScales<Block, Tail::kScale> {
  F32x16 scale;
  BlockScales(const uint8_t* header, int b) : scale(Block::scale(header, b)) {}
  F32x16 add_block(I32x16 sum, const QuantisedRows& rows, int m, F32x16 total) const {
    return fma(F32x16::from_i32(sum), scale * F32x16::set1(rows.scale[m]), total);
  }
};

template <class Block>
struct BlockScales<Block, Tail::kScaleMinimum> {
  F32x16 scale, minimum;
  BlockScales(const uint8_t* header, int b)
      : scale(Block::scale(header, b)), minimum(Block::minimum(header, b)) {}
  F32x16 add_block(I32x16 sum, const QuantisedRows& rows, int m, F32x16 total) const {
    const F32x16 with_sum = fma(F32x16::from_i32(sum), scale * F32x16::set1(rows.scale[m]), total);
    return fma(minimum, F32x16::set1(rows.scaled_sum[m]), with_sum);
  }
};

template <class Block>
struct BlockScales<Block, Tail::kHalfScales> {
  F32x16 low, high;
  BlockScales(const uint8_t* header, int b)
      : low(Block::scale(header, b, 0)), high(Block::scale(header, b, 1)) {}
  F32x16 low_half(I32x16 sum) const { return F32x16::from_i32(sum) * low; }
  F32x16 add_block(F32x16 low_half, I32x16 high_sum, const QuantisedRows& rows, int m, F32x16 total) const {
    const F32x16 both = fma(F32x16::from_i32(high_sum), high, low_half);
    return fma(both, F32x16::set1(rows.scale[m]), total);
  }
};

}  // namespace verispec::VERISPEC_ISA_NS
