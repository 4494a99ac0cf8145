// RMSNorm of one row.
#pragma once

#include "vec16.hpp"

namespace verispec::VERISPEC_ISA_NS {

// Sum of squares: column j goes to lane j % 16 of accumulator (j / 16) % 4, whatever n is.
inline float sum_of_squares(const float* x, int64_t n) {
  F32x16 sums[4] = {F32x16::zero(), F32x16::zero(), F32x16::zero(), F32x16::zero()};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int part = 0; part < 4; ++part) {
      const F32x16 v = F32x16::load(x + i + 16 * part);
      sums[part] = fma(v, v, sums[part]);
    }
  }
  for (int part = 0; i < n; i += 16, ++part) {
    const F32x16 v = load_first(x + i, n - i);
    sums[part] = fma(v, v, sums[part]);
  }
  return hsum((sums[0] + sums[2]) + (sums[1] + sums[3]));
}

// out = x / sqrt(mean(x^2) + eps) * weight; a null weight is all ones. out may be x.
inline void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* out) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const F32x16 inverse = F32x16::set1(1.0f / __builtin_sqrtf(mean + eps));
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const F32x16 y = F32x16::load(x + i) * inverse;
    (weight ? y * F32x16::load(weight + i) : y).store(out + i);
  }
  if (i < n) {
    const F32x16 y = load_first(x + i, n - i) * inverse;
    store_first(weight ? y * load_first(weight + i, n - i) : y, out + i, n - i);
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
