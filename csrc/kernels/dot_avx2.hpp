// The block dot with AVX2, never saturating. See dot.hpp.
//
// pmaddubsw adds two u8 x s8 products in 16 bits. Codes up to 63 cannot saturate it, and up to 32767 / (2 *
// 127 * kMaxCode) results are added before they are widened. 8-bit codes are made signed, their magnitude (at
// most 128) is multiplied by the activation carrying their sign: 2 * 128 * 127 = 32512 still fits.
#pragma once

#include "bytes.hpp"

namespace verispec::VERISPEC_ISA_NS {

constexpr int kDotRows = 4;  // rows that share one reading of the codes
constexpr int streams_for(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }  // as in dot_avx512.hpp

inline __m256i splat_four(const int8_t* activations) {
  int32_t four;
  std::memcpy(&four, activations, sizeof(four));
  return _mm256_set1_epi32(four);
}

inline I32x16 widen_pairs(__m256i lo, __m256i hi) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {_mm256_madd_epi16(lo, ones), _mm256_madd_epi16(hi, ones)};
}

template <int kMaxCode, int kShift, bool kCentred>
struct BlockDot {
  static constexpr int kPlaceCodes = 0;
  static constexpr int kAddsBeforeWidening = 32767 / (2 * 127 * kMaxCode);
  static_assert(kAddsBeforeWidening >= 1, "pmaddubsw would saturate");
  using Prepared = Bytes64;

  I32x16 sum;
  __m256i lo, hi;  // 16-bit sums not yet widened

  static Prepared prepare(Bytes64 codes) { return codes; }

  void start(const int32_t*) {
    sum = I32x16::set1(0);
    lo = hi = _mm256_setzero_si256();
  }

  template <int kQuad>
  void add(Prepared codes, const int8_t* activations) {
    const __m256i four = splat_four(activations);
    lo = _mm256_add_epi16(lo, _mm256_maddubs_epi16(codes.lo, four));
    hi = _mm256_add_epi16(hi, _mm256_maddubs_epi16(codes.hi, four));
    if constexpr ((kQuad + 1) % kAddsBeforeWidening == 0) {
      sum = sum + widen_pairs(lo, hi);
      lo = hi = _mm256_setzero_si256();
    }
  }

  I32x16 finish(const int32_t* offset) const {
    const I32x16 total = sum + widen_pairs(lo, hi);
    return kCentred ? shift_left<kShift>(total) + I32x16::set1(*offset) : total;
  }
};

template <>
struct BlockDot<255, 0, true> {
  static constexpr int kPlaceCodes = 0;
  struct Prepared {
    Bytes64 magnitude, sign;
  };

  I32x16 sum;

  static Prepared prepare(Bytes64 codes) {
    const __m256i centre = _mm256_set1_epi8(static_cast<char>(128));
    const __m256i lo = _mm256_xor_si256(codes.lo, centre);
    const __m256i hi = _mm256_xor_si256(codes.hi, centre);
    return {{_mm256_abs_epi8(lo), _mm256_abs_epi8(hi)}, {lo, hi}};
  }

  void start(const int32_t*) { sum = I32x16::set1(0); }

  template <int kQuad>
  void add(Prepared codes, const int8_t* activations) {
    const __m256i four = splat_four(activations);
    const __m256i lo = _mm256_maddubs_epi16(codes.magnitude.lo, _mm256_sign_epi8(four, codes.sign.lo));
    const __m256i hi = _mm256_maddubs_epi16(codes.magnitude.hi, _mm256_sign_epi8(four, codes.sign.hi));
    sum = sum + widen_pairs(lo, hi);
  }

  I32x16 finish(const int32_t*) const { return sum; }
};

}  // namespace verispec::VERISPEC_ISA_NS
