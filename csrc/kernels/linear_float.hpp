// F32, F16 and BF16 weights times f32 activations.
//
// Two partial sums per output, of the even and of the odd columns, added at the end: enough to keep one row
// at the speed of memory, and the same for every row count and instruction set.
#pragma once

#include "../weights/packed_layout.hpp"
#include "dot.hpp"

namespace verispec::VERISPEC_ISA_NS {

template <WeightType T>
struct FloatColumn;
template <>
struct FloatColumn<WeightType::F32> {
  static constexpr int kBytes = 4 * kGroup;
  static F32x16 load(const uint8_t* p) { return F32x16::load(reinterpret_cast<const float*>(p)); }
};
template <>
struct FloatColumn<WeightType::F16> {
  static constexpr int kBytes = 2 * kGroup;
  static F32x16 load(const uint8_t* p) { return F32x16::from_f16(reinterpret_cast<const uint16_t*>(p)); }
};
template <>
struct FloatColumn<WeightType::BF16> {
  static constexpr int kBytes = 2 * kGroup;
  static F32x16 load(const uint8_t* p) { return F32x16::from_bf16(reinterpret_cast<const uint16_t*>(p)); }
};

// sums[m] = the 16 outputs of `group` for the M rows of x, which are k apart.
template <WeightType T, int M>
void float_rows(const uint8_t* group, int64_t k, const float* x, F32x16* sums) {
  using Column = FloatColumn<T>;
  F32x16 even[M], odd[M];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) even[m] = odd[m] = F32x16::zero();
  int64_t c = 0;
  for (; c + 1 < k; c += 2, group += 2 * Column::kBytes) {
    __builtin_prefetch(group + 4096, 0, 3);
    if constexpr (Column::kBytes == 64) __builtin_prefetch(group + 4096 + 64, 0, 3);
    const F32x16 first = Column::load(group);
    const F32x16 second = Column::load(group + Column::kBytes);
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
      even[m] = fma(first, F32x16::set1(x[m * k + c]), even[m]);
      odd[m] = fma(second, F32x16::set1(x[m * k + c + 1]), odd[m]);
    }
  }
  if (c < k) {
    const F32x16 last = Column::load(group);
    for (int m = 0; m < M; ++m) even[m] = fma(last, F32x16::set1(x[m * k + c]), even[m]);
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) sums[m] = even[m] + odd[m];
}

}  // namespace verispec::VERISPEC_ISA_NS
