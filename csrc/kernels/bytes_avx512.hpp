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
inline void store_i8(I32x16 a, int8_t* p) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
inline int32_t hsum(I32x16 a) { return _mm512_reduce_add_epi32(a.v); }

}  // namespace verispec::VERISPEC_ISA_NS
