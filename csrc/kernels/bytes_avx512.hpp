// 64 bytes as one 512-bit register. See bytes.hpp for the meaning of every operation.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace verispec::VERISPEC_ISA_NS {

struct Bytes64 {
  __m512i v;

  static Bytes64 load(const uint8_t* p) { return {_mm512_load_si512(p)}; }
  static Bytes64 splat(int x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
  void store(uint8_t* p) const { _mm512_store_si512(p, v); }
};

inline Bytes64 operator&(Bytes64 a, Bytes64 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline Bytes64 operator|(Bytes64 a, Bytes64 b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int N>
inline Bytes64 shifted(Bytes64 a) {
  if constexpr (N > 0) return {_mm512_slli_epi16(a.v, N)};
  if constexpr (N < 0) return {_mm512_srli_epi16(a.v, -N)};
  return a;
}

inline I32x16 load_u8(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline I32x16 load_i8(const uint8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline void store_i8(I32x16 low, I32x16 high, int8_t* p, int32_t* sum_low, int32_t* sum_high) {
  const __m256i bytes = _mm256_set_m128i(_mm512_cvtepi32_epi8(high.v), _mm512_cvtepi32_epi8(low.v));
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
