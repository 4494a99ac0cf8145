// Where the results of a linear layer go.
#pragma once

#include "kernel_table.hpp"
#include "vec16.hpp"

namespace verispec::VERISPEC_ISA_NS {

// One group's outputs of `count` rows, plus bias, to their places in out.
inline void store_outputs(const F32x16* sums, int count, int64_t group, int64_t n, const float* bias,
                          float* out, int64_t ld) {
  const int64_t column = group * kGroup;
  const int64_t width = n - column < kGroup ? n - column : kGroup;
  const F32x16 shift = bias == nullptr ? F32x16::zero() : load_first(bias + column, width);
  for (int m = 0; m < count; ++m) {
    const F32x16 value = bias == nullptr ? sums[m] : sums[m] + shift;
    float* place = out + m * ld + column;
    if (width == kGroup) {
      value.store(place);
    } else {
      store_first(value, place, width);
    }
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
