// Quantised weights times quantised activations: one group of 16 output rows against up to kDotRows rows at
// once.
#pragma once

#include "dot.hpp"
#include "linear_tail.hpp"

namespace verispec::VERISPEC_ISA_NS {

// How far ahead of use weights are asked for; a stream runs on through the groups that follow.
constexpr int kPrefetchBytes = 2048;

template <int kBytes>
inline void prefetch_lines(const uint8_t* p) {
#pragma GCC unroll 16
  for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(p + i + kPrefetchBytes, 0, 3);
}

template <class Block>
using DotOf = BlockDot<Block::kMaxCode, Block::kShift, Block::kCentred>;

// Adds quads 2 * kVector and 2 * kVector + 1 to the dots of M rows; kFirst is the dots' first vector.
template <class Block, int kVector, int kFirst, int M>
inline void add_vector(const uint8_t* block, const int8_t* values, DotOf<Block> (&dots)[M]) {
  using Dot = DotOf<Block>;
  Bytes64 even, odd;
  Block::template codes<Dot::kPlaceCodes, kVector>(block, even, odd);
  const auto& even_codes = Dot::prepare(even);
  const auto& odd_codes = Dot::prepare(odd);
  constexpr int kQuad = 2 * (kVector - kFirst);
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    const int8_t* four = values + m * kBlock + 8 * kVector;
    dots[m].template add<kQuad>(even_codes, four);
    dots[m].template add<kQuad + 1>(odd_codes, four + 4);
  }
}

template <class Block, int kFirst, int M>
inline void dot_half(const uint8_t* block, const int8_t* values, DotOf<Block> (&dots)[M]) {
  add_vector<Block, kFirst, kFirst>(block, values, dots);
  add_vector<Block, kFirst + 1, kFirst>(block, values, dots);
}

template <class Block, int M>
inline void add_whole_block(const uint8_t* header, int b, const uint8_t* block, const QuantisedRows& rows,
                            F32x16 (&totals)[M]) {
  DotOf<Block> dots[M];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) dots[m].start(rows.offset + m);
  add_vector<Block, 0, 0>(block, rows.values, dots);
  add_vector<Block, 1, 0>(block, rows.values, dots);
  add_vector<Block, 2, 0>(block, rows.values, dots);
  add_vector<Block, 3, 0>(block, rows.values, dots);
  const BlockScales<Block> scales(header, b);
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    totals[m] = scales.add_block(dots[m].finish(rows.offset + m), rows, m, totals[m]);
  }
}

template <class Block, int M>
inline void add_half_blocks(const uint8_t* header, int b, const uint8_t* block, const QuantisedRows& rows,
                            F32x16 (&totals)[M]) {
  const BlockScales<Block> scales(header, b);
  DotOf<Block> dots[M];
  F32x16 low[M];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) dots[m].start(rows.low_offset + m);
  dot_half<Block, 0>(block, rows.values, dots);
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    low[m] = scales.low_half(dots[m].finish(rows.low_offset + m));
    dots[m].start(rows.high_offset + m);
  }
  dot_half<Block, 2>(block, rows.values, dots);
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    totals[m] = scales.add_block(low[m], dots[m].finish(rows.high_offset + m), rows, m, totals[m]);
  }
}

// One block of one group, all M rows.
template <WeightType T, int M>
inline void add_block(const uint8_t* header, int b, const QuantisedRows& rows, F32x16 (&totals)[M]) {
  using Block = WeightBlock<T>;
  const uint8_t* block = header + kLayout<T>.header_bytes + b * kLayout<T>.block_bytes();
  prefetch_lines<kLayout<T>.block_bytes()>(block);
  if constexpr (Block::kTail == Tail::kHalfScales) {
    add_half_blocks<Block>(header, b, block, rows, totals);
  } else {
    add_whole_block<Block>(header, b, block, rows, totals);
  }
}

// kStreams groups of outputs, `stride` bytes apart, against rows first + m (m < M) of a tile of `tile_rows`
// rows: sums[s * M + m] = the 16 outputs of group s for row m.
template <WeightType T, int M, int kStreams>
void quantised_rows(const uint8_t* group, int64_t stride, int64_t blocks, const uint8_t* tile, int tile_rows,
                    int first, F32x16* sums) {
  constexpr QuantisedLayout kShape = kLayout<T>;
  F32x16 totals[kStreams][M];
#pragma GCC unroll 8
  for (int s = 0; s < kStreams; ++s) {
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) totals[s][m] = F32x16::zero();
  }
  const uint8_t* header = group;
  for (int64_t done = 0; done < blocks; done += kShape.unit_blocks, header += kShape.unit_bytes()) {
#pragma GCC unroll 8
    for (int s = 0; s < kStreams; ++s) prefetch_lines<kShape.header_bytes>(header + s * stride);
    const int64_t left = blocks - done;
    const int in_unit = left < kShape.unit_blocks ? static_cast<int>(left) : kShape.unit_blocks;
#pragma GCC unroll 1
    for (int b = 0; b < in_unit; ++b, tile += tile_rows * kQuantisedBlockBytes) {
      const QuantisedRows rows(tile, tile_rows, first);
#pragma GCC unroll 8
      for (int s = 0; s < kStreams; ++s) add_block<T>(header + s * stride, b, rows, totals[s]);
    }
  }
#pragma GCC unroll 8
  for (int s = 0; s < kStreams; ++s) {
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) sums[s * M + m] = totals[s][m];
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
