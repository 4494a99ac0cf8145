// Passes over a row of logits that a sampler needs: what they find is checked by exact scalar code
// afterwards.
#pragma once

#include "kernel_table.hpp"
#include "math.hpp"
#include "noise_lanes.hpp"

namespace verispec::VERISPEC_ISA_NS {

// Index of the lowest lane set, counted from begin's block; lanes before begin do not count.
template <typename Test>
inline int64_t find_lane(const float* x, int64_t begin, int64_t n, Test test) {
  for (int64_t block = begin / 16 * 16; block < n; block += 16) {
    const F32x16 v = load_first(x + block, n - block, -__builtin_inff());
    uint32_t found = lane_bits(test(v, block));
    if (block < begin) found &= 0xffffu << (begin - block);
    if (n - block < 16) found &= (1u << (n - block)) - 1;
    if (found) return block + __builtin_ctz(found);
  }
  return n;
}

// Lowest i in [begin, n) with x[i] >= least; n when there is none.
inline int64_t find_at_least(const float* x, int64_t begin, int64_t n, float least) {
  const F32x16 bound = F32x16::set1(least);
  return find_lane(x, begin, n, [bound](F32x16 v, int64_t) { return v >= bound; });
}

// Sum of exp((x[i] - top) * factor), top the greatest of x: lane i % 16, then the fixed tree.
inline float sum_exp(const float* x, int64_t n, float top, float factor) {
  F32x16 sum = F32x16::zero();
  for (int64_t i = 0; i < n; i += 16) {
    const F32x16 v = load_first(x + i, n - i, -__builtin_inff());
    sum += exp_nonpositive((v - F32x16::set1(top)) * F32x16::set1(factor));
  }
  return hsum(sum);
}

// Lowest i in [begin, n) whose noise may lift it to `least`, in units of log 2 above the greatest logit
// without noise: (x[i] - top) * factor + noise >= least. With h the upper 31 bits of the noise, the Gumbel
// noise is less than -log2(h / 2^31), and the bits of float(h) as an integer are a lower bound of log2(h) in
// steps of 2^-23. Rounding is made up for by lowering `least` by 2^-10.
inline int64_t find_contender(const float* x, int64_t begin, int64_t n, const NoiseKey& key, float top,
                              float factor, float least) {
  const F32x16 tops = F32x16::set1(top);
  const F32x16 factors = F32x16::set1(factor);
  const F32x16 bound = F32x16::set1(least - 0x1p-10f - (127.0f + 31.0f));
  const F32x16 step = F32x16::set1(-0x1p-23f);
  return find_lane(x, begin, n, [&](F32x16 v, int64_t block) {
    const F32x16 uniform = F32x16::from_i32(noise_lanes(key, static_cast<uint32_t>(block)));
    const F32x16 height = F32x16::from_i32(bits(uniform)) * step;
    return (v - tops) * factors + height >= bound;
  });
}

}  // namespace verispec::VERISPEC_ISA_NS
