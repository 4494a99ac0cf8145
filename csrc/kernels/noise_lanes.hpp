// The sampler's noise for sixteen consecutive tokens (sampling/noise.hpp): the upper 31 of its 64 bits.
#pragma once

#include "../sampling/noise.hpp"
#include "vec16.hpp"

namespace verispec::VERISPEC_ISA_NS {

#if defined(__AVX512DQ__)

inline __m512i mix_lanes(__m512i z, __m512i second_key) {
  z = _mm512_xor_si512(z, _mm512_srli_epi64(z, 30));
  z = _mm512_mullo_epi64(z, _mm512_set1_epi64(static_cast<int64_t>(kNoiseMultiplier1)));
  z = _mm512_xor_si512(z, second_key);
  z = _mm512_xor_si512(z, _mm512_srli_epi64(z, 27));
  z = _mm512_mullo_epi64(z, _mm512_set1_epi64(static_cast<int64_t>(kNoiseMultiplier2)));
  return _mm512_xor_si512(z, _mm512_srli_epi64(z, 31));
}

inline I32x16 noise_lanes(const NoiseKey& key, uint32_t token) {
  const __m512i step = _mm512_mullo_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0),
                                          _mm512_set1_epi64(static_cast<int64_t>(kNoiseStep)));
  const uint64_t start = key.first + kNoiseStep * (static_cast<uint64_t>(token) + 1);
  const __m512i low = _mm512_add_epi64(step, _mm512_set1_epi64(static_cast<int64_t>(start)));
  const __m512i high =
      _mm512_add_epi64(step, _mm512_set1_epi64(static_cast<int64_t>(start + 8 * kNoiseStep)));
  const __m512i second_key = _mm512_set1_epi64(static_cast<int64_t>(key.second));
  const __m256i a = _mm512_cvtepi64_epi32(_mm512_srli_epi64(mix_lanes(low, second_key), 33));
  const __m256i b = _mm512_cvtepi64_epi32(_mm512_srli_epi64(mix_lanes(high, second_key), 33));
  return {_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1)};
}

#elif defined(__AVX2__)

// The low 64 bits of the products, from 32-bit halves.
inline __m256i multiply_lanes(__m256i a, uint64_t constant) {
  const __m256i b = _mm256_set1_epi64x(static_cast<int64_t>(constant));
  const __m256i b_high = _mm256_set1_epi64x(static_cast<int64_t>(constant >> 32));
  const __m256i cross =
      _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b), _mm256_mul_epu32(a, b_high));
  return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(cross, 32));
}

// The upper 31 bits of the mixed lanes, as the low halves of 64-bit lanes.
inline __m256i mix_lanes(__m256i z, __m256i second_key) {
  z = multiply_lanes(_mm256_xor_si256(z, _mm256_srli_epi64(z, 30)), kNoiseMultiplier1);
  z = _mm256_xor_si256(z, second_key);
  z = multiply_lanes(_mm256_xor_si256(z, _mm256_srli_epi64(z, 27)), kNoiseMultiplier2);
  return _mm256_srli_epi64(_mm256_xor_si256(z, _mm256_srli_epi64(z, 31)), 33);
}

inline I32x16 noise_lanes(const NoiseKey& key, uint32_t token) {
  const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  const __m256i second_key = _mm256_set1_epi64x(static_cast<int64_t>(key.second));
  const __m256i step =
      _mm256_setr_epi64x(0, static_cast<int64_t>(kNoiseStep), static_cast<int64_t>(2 * kNoiseStep),
                         static_cast<int64_t>(3 * kNoiseStep));
  __m256i quarters[4];
  for (int i = 0; i < 4; ++i) {
    const uint64_t start = key.first + kNoiseStep * (static_cast<uint64_t>(token) + 1 + 4 * i);
    const __m256i z = _mm256_add_epi64(step, _mm256_set1_epi64x(static_cast<int64_t>(start)));
    quarters[i] = _mm256_permutevar8x32_epi32(mix_lanes(z, second_key), even);
  }
  return {_mm256_blend_epi32(quarters[0], quarters[1], 0xf0),
          _mm256_blend_epi32(quarters[2], quarters[3], 0xf0)};
}

#else

inline I32x16 noise_lanes(const NoiseKey& key, uint32_t token) {
  I32x16 r;
  for (uint32_t i = 0; i < 16; ++i) r.v[i] = static_cast<int32_t>(noise_bits(key, token + i) >> 33);
  return r;
}

#endif

}  // namespace verispec::VERISPEC_ISA_NS
