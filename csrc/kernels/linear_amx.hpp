// Quantised weights times quantised activations with AMX: 16 outputs against 16 rows at once, the same
// integer sums and the same operations on them as everywhere else.
//
// A sum of one block leaves its tile through memory before it can be scaled. What makes that pay:
//   - a tile is stored three blocks after it was multiplied, because a store that waits for its product stops
//     everything behind it;
//   - while the tile unit is busy the second multiplier of the core is not available, but its adder is: the
//     conversion of a sum to f32 is therefore an integer addition and a subtraction, as exact as the other.
#pragma once

#include "kernel_pace.hpp"
#include "linear_outputs.hpp"
#include "linear_quantised.hpp"
#include "tiles_amx.hpp"

namespace verispec::VERISPEC_ISA_NS {

constexpr int kPanelBlocks = 64;  // of 32 columns: a panel is at most 40 KB
constexpr int kPanelTiles = 8;    // tiles of rows that share an unpacked panel

// One block of a group: codes as the tiles need them, and the scales of its outputs.
struct PanelBlock {
  alignas(64) uint8_t codes[512];
  F32x16 scale;
  F32x16 minimum;
};

// Codes with a centre become signed, so that no correction is left to add.
template <class Block, int kVector>
inline void unpack_vector(const uint8_t* block, uint8_t* codes) {
  Bytes64 even, odd;
  Block::template codes<Block::kShift, kVector>(block, even, odd);
  const __m512i centre = _mm512_set1_epi8(Block::kCentred ? -128 : 0);
  Bytes64{_mm512_xor_si512(even.v, centre)}.store(codes + 128 * kVector);
  Bytes64{_mm512_xor_si512(odd.v, centre)}.store(codes + 128 * kVector + 64);
}

// Blocks [first, first + count) of one group.
template <WeightType T>
inline void unpack_group(const uint8_t* group, int64_t first, int64_t count, PanelBlock* panel) {
  using Block = WeightBlock<T>;
  constexpr QuantisedLayout kShape = kLayout<T>;
  for (int64_t b = first; b < first + count; ++b, ++panel) {
    const uint8_t* header = group + b / kShape.unit_blocks * kShape.unit_bytes();
    const int in_unit = static_cast<int>(b % kShape.unit_blocks);
    const uint8_t* block = header + kShape.header_bytes + in_unit * kShape.block_bytes();
    if (in_unit == 0) prefetch_lines<kShape.header_bytes>(header);
    prefetch_lines<kShape.block_bytes()>(block);
    unpack_vector<Block, 0>(block, panel->codes);
    unpack_vector<Block, 1>(block, panel->codes);
    unpack_vector<Block, 2>(block, panel->codes);
    unpack_vector<Block, 3>(block, panel->codes);
    panel->scale = Block::scale(header, in_unit);
    if constexpr (Block::kTail == Tail::kScaleMinimum) panel->minimum = Block::minimum(header, in_unit);
  }
}

constexpr int64_t kTileBlockBytes = kTileSide * kQuantisedBlockBytes;  // one block of 16 rows
constexpr int kAhead = 3;                                              // blocks from product to store

struct alignas(64) TileSums {
  int32_t values[kTileSide][kGroup];
};

// Exact, since a block's sum is less than 2^22.
inline F32x16 float_of_sum(const int32_t* sum) {
  constexpr int32_t kOnes = 0x4b400000;  // the bits of 1.5 * 2^23, whose last bit is worth 1
  return from_bits(I32x16::load(sum) + I32x16::set1(kOnes)) - F32x16::set1(0x1.8p23f);
}

template <class Block>
inline void scale_tile(const PanelBlock& panel, const uint8_t* tile, const TileSums& sums,
                       F32x16 (&totals)[kTileSide]) {
  const QuantisedRows rows(tile, kTileSide, 0);
#pragma GCC unroll 16
  for (int m = 0; m < kTileSide; ++m) {
    const F32x16 scale = panel.scale * F32x16::set1(rows.scale[m]);
    totals[m] = fma(float_of_sum(sums.values[m]), scale, totals[m]);
    if constexpr (Block::kTail == Tail::kScaleMinimum)
      totals[m] = fma(panel.minimum, F32x16::set1(rows.scaled_sum[m]), totals[m]);
  }
}

// Step `kStep` of four: block b + kAhead is multiplied, block b stored and added to the totals.
template <class Block, int kStep>
inline void multiply_step(const PanelBlock* panel, const uint8_t* tile) {
  constexpr int kOperand = kStep % 2;
  load_tile<4 + kOperand>(tile, kBlock);
  load_tile<6 + kOperand>(panel->codes, 64);
  multiply_tiles<kStep, 4 + kOperand, 6 + kOperand, Block::kCentred>();
}

template <class Block, int kStep>
inline void panel_step(const PanelBlock* panel, int64_t b, int64_t blocks, const uint8_t* tile,
                       TileSums* sums, F32x16 (&totals)[kTileSide]) {
  const int64_t ahead = b + kAhead;
  if (ahead < blocks)
    multiply_step<Block, (kStep + kAhead) % 4>(panel + ahead, tile + ahead * kTileBlockBytes);
  if (b >= blocks) return;
  store_tile<kStep>(sums[kStep].values, 64);
  scale_tile<Block>(panel[b], tile + b * kTileBlockBytes, sums[kStep], totals);
}

// Adds the blocks of a panel to the totals of a tile of 16 rows, whose first of these blocks is at `tile`.
template <class Block>
inline void add_panel(const PanelBlock* panel, int64_t blocks, const uint8_t* tile,
                      F32x16 (&sums)[kTileSide]) {
  F32x16 totals[kTileSide];
#pragma GCC unroll 16
  for (int m = 0; m < kTileSide; ++m) totals[m] = sums[m];
  TileSums products[4];
  multiply_step<Block, 0>(panel, tile);
  if (blocks > 1) multiply_step<Block, 1>(panel + 1, tile + kTileBlockBytes);
  if (blocks > 2) multiply_step<Block, 2>(panel + 2, tile + 2 * kTileBlockBytes);
  for (int64_t b = 0; b < blocks; b += 4) {
    panel_step<Block, 0>(panel, b, blocks, tile, products, totals);
    panel_step<Block, 1>(panel, b + 1, blocks, tile, products, totals);
    panel_step<Block, 2>(panel, b + 2, blocks, tile, products, totals);
    panel_step<Block, 3>(panel, b + 3, blocks, tile, products, totals);
  }
#pragma GCC unroll 16
  for (int m = 0; m < kTileSide; ++m) sums[m] = totals[m];
}

// `count` whole tiles of rows, at most kPanelTiles, from row `row` on.
template <WeightType T>
void linear_tiles(const PackedMatrix& w, int row, int count, const uint8_t* quantised, int64_t group_begin,
                  int64_t group_end, const float* bias, float* out, int64_t ld) {
  constexpr QuantisedLayout kShape = kLayout<T>;
  const int64_t blocks = w.k / kBlock;
  const int64_t group_bytes = (blocks + kShape.unit_blocks - 1) / kShape.unit_blocks * kShape.unit_bytes();
  PanelBlock panel[kPanelBlocks];
  F32x16 sums[kPanelTiles][kTileSide];
  for (int64_t g = group_begin; g < group_end; ++g) {
    for (int t = 0; t < count; ++t)
      for (int m = 0; m < kTileSide; ++m) sums[t][m] = F32x16::zero();
    for (int64_t first = 0; first < blocks; first += kPanelBlocks) {
      const int64_t wide = blocks - first < kPanelBlocks ? blocks - first : kPanelBlocks;
      unpack_group<T>(w.data + g * group_bytes, first, wide, panel);
      for (int t = 0; t < count; ++t) {
        const uint8_t* tile = quantised + quantised_bytes(row + t * kTileSide, w.k) + first * kTileBlockBytes;
        add_panel<WeightBlock<T>>(panel, wide, tile, sums[t]);
      }
    }
    for (int t = 0; t < count; ++t)
      store_outputs(sums[t], kTileSide, g, w.n, bias, out + (row + t * kTileSide) * ld, ld);
  }
}

using TileKernel = void (*)(const PackedMatrix&, int, int, const uint8_t*, int64_t, int64_t, const float*,
                            float*, int64_t);

// Null for types that have no whole blocks of 8-bit codes under one scale.
inline TileKernel tile_kernel(WeightType type) {
  switch (type) {
    case WeightType::Q8_0:
      return linear_tiles<WeightType::Q8_0>;
    case WeightType::Q4_0:
      return linear_tiles<WeightType::Q4_0>;
    case WeightType::Q4_1:
      return linear_tiles<WeightType::Q4_1>;
    case WeightType::Q5_0:
      return linear_tiles<WeightType::Q5_0>;
    case WeightType::Q5_1:
      return linear_tiles<WeightType::Q5_1>;
    case WeightType::Q4_K:
      return linear_tiles<WeightType::Q4_K>;
    case WeightType::Q5_K:
      return linear_tiles<WeightType::Q5_K>;
    default:
      return nullptr;
  }
}

// The rows that fill whole tiles.
inline void linear_whole_tiles(TileKernel tiles, int count, const PackedMatrix& w, const uint8_t* quantised,
                               int64_t group_begin, int64_t group_end, const float* bias, float* out,
                               int64_t ld) {
  use_tiles(linear_tile_shapes());
  for (int t = 0; t < count; t += kPanelTiles) {
    const int some = count - t < kPanelTiles ? count - t : kPanelTiles;
    tiles(w, t * kTileSide, some, quantised, group_begin, group_end, bias, out, ld);
  }
  release_tiles();
}

// Fewer rows are read faster by the AVX-512 kernel, which need not unpack.
constexpr int kLeastRows = 4 * kTileSide;
constexpr int kWeightTypes = static_cast<int>(WeightType::Q6_K) + 1;

inline void linear(const PackedMatrix& w, int m, const Activations& in, int64_t group_begin,
                   int64_t group_end, const float* bias, float* out, int64_t ld) {
  static thread_local KernelPace paces[kWeightTypes];
  const KernelTable& plain = kernels_avx512();
  const TileKernel tiles = tile_kernel(w.type);
  if (!tiles || m < kLeastRows) return plain.linear(w, m, in, group_begin, group_end, bias, out, ld);
  KernelPace& pace = paces[static_cast<int>(w.type)];
  const bool by_tiles = pace.next_is_first();
  const int whole = by_tiles ? m / kTileSide : 0;
  const int done = whole * kTileSide;
  const uint64_t begin = __rdtsc();
  if (by_tiles) linear_whole_tiles(tiles, whole, w, in.quantised, group_begin, group_end, bias, out, ld);
  if (done < m) {
    const Activations rest = {in.x ? in.x + done * w.k : nullptr, in.quantised + quantised_bytes(done, w.k)};
    plain.linear(w, m - done, rest, group_begin, group_end, bias, out + done * ld, ld);
  }
  const float work = static_cast<float>(m) * static_cast<float>((group_end - group_begin) * w.k);
  pace.record(by_tiles, static_cast<float>(__rdtsc() - begin) / work);
}

}  // namespace verispec::VERISPEC_ISA_NS
