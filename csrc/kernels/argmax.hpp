// Greatest element of a row.
#pragma once

#include "vec16.hpp"

namespace verispec::VERISPEC_ISA_NS {

// The lowest index among equal greatest values; NaN is never greatest. A row without any value above -inf
// gives index 0. n < 2^31.
inline void argmax(const float* x, int64_t n, float* value, int64_t* index) {
  F32x16 best = F32x16::set1(-__builtin_inff());
  F32x16 best_step = from_bits(I32x16::set1(0));  // step number of each lane's best, as bits
  I32x16 step = I32x16::set1(0);
  const I32x16 one = I32x16::set1(1);
  for (int64_t i = 0; i < n; i += 16, step = step + one) {
    const F32x16 v = load_first(x + i, n - i, -__builtin_inff());
    const Mask16 greater = v > best;
    best = select(greater, v, best);
    best_step = select(greater, from_bits(step), best_step);
  }
  float values[16];
  int32_t steps[16];
  best.store(values);
  bits(best_step).store(steps);
  float top = values[0];
  int64_t at = static_cast<int64_t>(steps[0]) * 16;
  for (int lane = 1; lane < 16; ++lane) {
    const int64_t candidate = static_cast<int64_t>(steps[lane]) * 16 + lane;
    if (values[lane] > top || (values[lane] == top && candidate < at)) {
      top = values[lane];
      at = candidate;
    }
  }
  *value = top;
  *index = at;
}

}  // namespace verispec::VERISPEC_ISA_NS
