// How a kernel reads one block of each quantised weight type: codes as vectors of 64 bytes, scales as 16
// lanes.
//
// WeightBlock<type> has
//   kMaxCode, kShift, kCentred - what BlockDot needs (kShift brings the type's zero code to 128);
//   kTail                      - how the integer sum becomes a float;
//   codes<kPlace, kVector>(block, even, odd) - quads 2 * kVector and 2 * kVector + 1, shifted left by kPlace;
//   scale(header, b), minimum(header, b)     - of block b of a unit, for codes shifted left by kShift.
// Every product of integer scales and f16 factors here is exact in f32.
#pragma once

#include "../weights/packed_layout.hpp"
#include "bytes.hpp"

namespace verispec::VERISPEC_ISA_NS {

enum class Tail {
  kScale,         // sum * scale
  kScaleMinimum,  // sum * scale + minimum
  kHalfScales,    // a scale for each half of 16 columns
};

inline F32x16 f16_lanes(const uint8_t* p) { return F32x16::from_f16(reinterpret_cast<const uint16_t*>(p)); }

// Quads 2 * kVector (low nibbles) and 2 * kVector + 1 (high nibbles).
template <int kPlace, int kVector>
inline void nibble_quads(const uint8_t* block, Bytes64& even, Bytes64& odd) {
  const Bytes64 both = Bytes64::load(block + 64 * kVector);
  const Bytes64 mask = Bytes64::splat(15 << kPlace);
  even = shifted<kPlace>(both) & mask;
  odd = shifted<kPlace - 4>(both) & mask;
}

// The high bits of quad kQuad from planes of kBits bits a code.
template <int kPlace, int kQuad, int kBits>
inline Bytes64 high_bits(const uint8_t* planes) {
  constexpr int kQuadsPerPlane = 8 / kBits;
  constexpr int kShift = kPlace + 4 - kBits * (kQuad % kQuadsPerPlane);
  const Bytes64 plane = Bytes64::load(planes + 64 * (kQuad / kQuadsPerPlane));
  return shifted<kShift>(plane) & Bytes64::splat(((1 << kBits) - 1) << (kPlace + 4));
}

struct ByteCodes {
  static constexpr int kMaxCode = 255;
  template <int kPlace, int kVector>
  static void codes(const uint8_t* block, Bytes64& even, Bytes64& odd) {
    static_assert(kPlace == 0, "a byte has no room to shift");
    even = Bytes64::load(block + 128 * kVector);
    odd = Bytes64::load(block + 128 * kVector + 64);
  }
};

struct NibbleCodes {
  static constexpr int kMaxCode = 15;
  template <int kPlace, int kVector>
  static void codes(const uint8_t* block, Bytes64& even, Bytes64& odd) {
    nibble_quads<kPlace, kVector>(block, even, odd);
  }
};

template <int kHighBits>
struct PlaneCodes {
  static constexpr int kMaxCode = (16 << kHighBits) - 1;
  template <int kPlace, int kVector>
  static void codes(const uint8_t* block, Bytes64& even, Bytes64& odd) {
    nibble_quads<kPlace, kVector>(block, even, odd);
    even = even | high_bits<kPlace, 2 * kVector, kHighBits>(block + 256);
    odd = odd | high_bits<kPlace, 2 * kVector + 1, kHighBits>(block + 256);
  }
};

// Q8_0, Q4_0, Q5_0: codes centred on 128 >> kCodeShift, one f16 scale.
template <class Codes, int kCodeShift>
struct CentredBlock : Codes {
  static constexpr int kShift = kCodeShift;
  static constexpr bool kCentred = true;
  static constexpr Tail kTail = Tail::kScale;
  static F32x16 scale(const uint8_t* header, int b) {
    const F32x16 scale = f16_lanes(header + 32 * b);
    return kShift == 0 ? scale : scale * F32x16::set1(1.0f / (1 << kShift));
  }
};

// Q4_1, Q5_1: an f16 scale and an f16 minimum.
template <class Codes>
struct MinimumBlock : Codes {
  static constexpr int kShift = 0;
  static constexpr bool kCentred = false;
  static constexpr Tail kTail = Tail::kScaleMinimum;
  static F32x16 scale(const uint8_t* header, int) { return f16_lanes(header); }
  static F32x16 minimum(const uint8_t* header, int) { return f16_lanes(header + 32); }
};

// Q4_K, Q5_K: integer scales and minima of 32 columns under two f16 factors of 256.
template <class Codes>
struct SuperBlock : Codes {
  static constexpr int kShift = 0;
  static constexpr bool kCentred = false;
  static constexpr Tail kTail = Tail::kScaleMinimum;
  static F32x16 scale(const uint8_t* header, int b) {
    return f16_lanes(header) * F32x16::from_i32(load_u8(header + kSubScales + b * kGroup));
  }
  static F32x16 minimum(const uint8_t* header, int b) {
    return f16_lanes(header + kSuperMinimum) * F32x16::from_i32(load_u8(header + kSubMinima + b * kGroup));
  }
};

// Q6_K: an integer scale for 16 columns under one f16 factor of 256.
struct HalfScaleBlock : PlaneCodes<2> {
  static constexpr int kShift = 2;
  static constexpr bool kCentred = true;
  static constexpr Tail kTail = Tail::kHalfScales;
  static F32x16 scale(const uint8_t* header, int b, int half) {
    const F32x16 sub = F32x16::from_i32(load_i8(header + kSubScales + (2 * b + half) * kGroup));
    return f16_lanes(header) * F32x16::set1(1.0f / (1 << kShift)) * sub;
  }
};

template <WeightType T>
struct WeightBlock;
template <>
struct WeightBlock<WeightType::Q8_0> : CentredBlock<ByteCodes, 0> {};
template <>
struct WeightBlock<WeightType::Q4_0> : CentredBlock<NibbleCodes, 4> {};
template <>
struct WeightBlock<WeightType::Q5_0> : CentredBlock<PlaneCodes<1>, 3> {};
template <>
struct WeightBlock<WeightType::Q4_1> : MinimumBlock<NibbleCodes> {};
template <>
struct WeightBlock<WeightType::Q5_1> : MinimumBlock<PlaneCodes<1>> {};
template <>
struct WeightBlock<WeightType::Q4_K> : SuperBlock<NibbleCodes> {};
template <>
struct WeightBlock<WeightType::Q5_K> : SuperBlock<PlaneCodes<1>> {};
template <>
struct WeightBlock<WeightType::Q6_K> : HalfScaleBlock {};

}  // namespace verispec::VERISPEC_ISA_NS
