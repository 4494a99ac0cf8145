// 64 bytes as two 256-bit registers. See bytes.hpp for the meaning of every operation.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace verispec::VERISPEC_ISA_NS {

struct Bytes64 {
  __m256i lo, hi;

  static Bytes64 load(const uint8_t* p) {
    return {_mm256_load_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_load_si256(reinterpret_cast<const __m256i*>(p + 32))};
  }
  static Bytes64 splat(int x) {
    return {_mm256_set1_epi8(static_cast<char>(x)), _mm256_set1_epi8(static_cast<char>(x))};
  }
};

inline Bytes64 operator&(Bytes64 a, Bytes64 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
inline Bytes64 operator|(Bytes64 a, Bytes64 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
template <int N>
inline Bytes64 shifted(Bytes64 a) {
  if constexpr (N > 0) return {_mm256_slli_epi16(a.lo, N), _mm256_slli_epi16(a.hi, N)};
  if constexpr (N < 0) return {_mm256_srli_epi16(a.lo, -N), _mm256_srli_epi16(a.hi, -N)};
  return a;
}

inline I32x16 load_u8(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline I32x16 load_i8(const uint8_t* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline void store_i8(I32x16 low, I32x16 high, int8_t* p, int32_t* sum_low, int32_t* sum_high) {
  // Packing works on 128-bit halves: the four-byte pieces come out as 0 2 4 6 1 3 5 7.
  const __m256i pieces =
      _mm256_packs_epi16(_mm256_packs_epi32(low.lo, low.hi), _mm256_packs_epi32(high.lo, high.hi));
  const __m256i bytes = _mm256_permutevar8x32_epi32(pieces, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bytes);
  const __m256i sums8 =
      _mm256_sad_epu8(_mm256_xor_si256(bytes, _mm256_set1_epi8(-128)), _mm256_setzero_si256());
  const __m128i first = _mm256_castsi256_si128(sums8);
  const __m128i last = _mm256_extracti128_si256(sums8, 1);
  const __m128i both = _mm_add_epi64(_mm_unpacklo_epi64(first, last), _mm_unpackhi_epi64(first, last));
  *sum_low = _mm_cvtsi128_si32(both) - 16 * 128;
  *sum_high = _mm_extract_epi32(both, 2) - 16 * 128;
}

}  // namespace verispec::VERISPEC_ISA_NS
