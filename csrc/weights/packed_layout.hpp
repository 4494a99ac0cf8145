// Where the bytes of a packed weight matrix lie; read by the packer and by every kernel.
//
// A matrix is a sequence of groups of kGroup output rows (the last one padded with zero rows). A group is a
// sequence of units, a unit is one header and `unit_blocks` blocks of kBlock columns:
//   header : scales of all blocks of the unit, lane (output row) innermost;
//   block  : codes, then the plane of high bits where the type has one.
// Codes are unsigned. Quad i of a block (i = 0..7) is 64 bytes: byte 4 * lane + c is column 4 * i + c of
// `lane`, so one 4-byte broadcast of activations meets 16 output rows and no horizontal sum is needed.
//   8-bit: quads 0..7, 512 bytes.
//   4-bit: 4 vectors of 64 bytes; vector j has quad 2j in the low nibbles, quad 2j + 1 in the high ones.
//   5-bit: as 4-bit, then 64 bytes: bit i of byte p is bit 4 of byte p of quad i.
//   6-bit: as 4-bit, then 2 x 64 bytes: bits 2i, 2i+1 of byte p of half h are bits 4, 5 of quad 4h + i.
// Headers and blocks are multiples of 64 bytes, so every vector is aligned when the matrix is. A last unit
// that has fewer blocks than `unit_blocks` is padded with zeros.
//
// Float types have no units: column after column, 16 lanes each, the group padded to 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../kernels/kernel_table.hpp"

namespace verispec {

struct QuantisedLayout {
  int unit_blocks;
  int header_bytes;
  int code_bytes;   // per block
  int plane_bytes;  // per block

  constexpr int block_bytes() const { return code_bytes + plane_bytes; }
  constexpr int unit_bytes() const { return header_bytes + unit_blocks * block_bytes(); }
};

// The header of each type:
//   Q8_0 Q4_0 Q5_0 : f16 scale[2 blocks][16]
//   Q4_1 Q5_1      : f16 scale[16], f16 minimum[16]
//   Q4_K Q5_K      : f16 d[16], f16 -dmin[16], u8 scale[8 blocks][16], u8 minimum[8 blocks][16]
//   Q6_K           : f16 d[16], 32 bytes of zero, i8 scale[8 blocks][2 halves][16]
// Value of a code q: Q8_0 scale * (q - 128); Q4_0 scale * (q - 8); Q5_0 scale * (q - 16);
// Q4_1 Q5_1 scale * q + minimum; Q4_K Q5_K d * scale * q + (-dmin) * minimum; Q6_K d * scale * (q - 32).
template <WeightType T>
inline constexpr QuantisedLayout kLayout = {};
template <>
inline constexpr QuantisedLayout kLayout<WeightType::Q8_0> = {2, 64, 512, 0};
template <>
inline constexpr QuantisedLayout kLayout<WeightType::Q4_0> = {2, 64, 256, 0};
template <>
inline constexpr QuantisedLayout kLayout<WeightType::Q4_1> = {1, 64, 256, 0};
template <>
inline constexpr QuantisedLayout kLayout<WeightType::Q5_0> = {2, 64, 256, 64};
template <>
inline constexpr QuantisedLayout kLayout<WeightType::Q5_1> = {1, 64, 256, 64};
template <>
inline constexpr QuantisedLayout kLayout<WeightType::Q4_K> = {8, 320, 256, 0};
template <>
inline constexpr QuantisedLayout kLayout<WeightType::Q5_K> = {8, 320, 256, 64};
template <>
inline constexpr QuantisedLayout kLayout<WeightType::Q6_K> = {8, 320, 256, 128};

// Byte offsets inside a K-type header.
inline constexpr int kSuperMinimum = 32;
inline constexpr int kSubScales = 64;
inline constexpr int kSubMinima = 64 + 8 * 16;

}  // namespace verispec
