// F32x16 as one 512-bit register. See vec16.hpp for the meaning of every operation.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace verispec::VERISPEC_ISA_NS {

struct Mask16 {
  __mmask16 v;
};

struct I32x16 {
  __m512i v;

  static I32x16 load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
  static I32x16 set1(int32_t x) { return {_mm512_set1_epi32(x)}; }
  void store(int32_t* p) const { _mm512_storeu_si512(p, v); }
};

inline I32x16 operator+(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I32x16 operator-(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline I32x16 operator&(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline I32x16 operator|(I32x16 a, I32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
inline I32x16 operator^(I32x16 a, I32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int N>
inline I32x16 shift_left(I32x16 a) {
  return {_mm512_slli_epi32(a.v, N)};
}
// Arithmetic shift: the sign is kept.
template <int N>
inline I32x16 shift_right(I32x16 a) {
  return {_mm512_srai_epi32(a.v, N)};
}

struct F32x16 {
  __m512 v;

  static F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static F32x16 zero() { return {_mm512_setzero_ps()}; }
  static F32x16 set1(float x) { return {_mm512_set1_ps(x)}; }
  static F32x16 from_f16(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static F32x16 from_bf16(const uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
  static F32x16 from_i32(I32x16 x) { return {_mm512_cvtepi32_ps(x.v)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void stream(float* p) const { _mm512_stream_ps(p, v); }
  void to_f16(uint16_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

inline F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32x16 operator-(F32x16 a) {
  return {_mm512_castsi512_ps(
      _mm512_xor_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(static_cast<int32_t>(0x80000000u))))};
}
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F32x16 sqrt(F32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
inline F32x16 abs(F32x16 a) {
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7fffffff)))};
}

inline I32x16 bits(F32x16 a) { return {_mm512_castps_si512(a.v)}; }
inline F32x16 from_bits(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
// Nearest integer, ties to even; defined for |x| <= 2^22.
inline I32x16 round_i32(F32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }

inline Mask16 operator>(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
inline Mask16 operator>=(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
inline Mask16 operator<(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask16 operator==(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
// Lanes [begin, end).
inline Mask16 lanes(int begin, int end) {
  return {static_cast<__mmask16>((0xffffu >> (16 - end)) & (0xffffu << begin))};
}
inline uint32_t lane_bits(Mask16 m) { return m.v; }
// m ? a : b
inline F32x16 select(Mask16 m, F32x16 a, F32x16 b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }

inline float hsum(F32x16 a) {
  const __m256 low = _mm512_castps512_ps256(a.v);
  const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
  const __m256 s8 = _mm256_add_ps(low, high);
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

inline float hmax(F32x16 a) {
  const __m256 low = _mm512_castps512_ps256(a.v);
  const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
  const __m256 s8 = _mm256_max_ps(low, high);
  const __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

inline void end_streams() { _mm_sfence(); }

}  // namespace verispec::VERISPEC_ISA_NS
