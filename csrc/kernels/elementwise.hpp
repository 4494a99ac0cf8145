// Operations on the elements of one row. out may be an input.
#pragma once

#include "math.hpp"

namespace verispec::VERISPEC_ISA_NS {

// out[i] = f(a[i]) sixteen at a time; the remainder goes through the same lanes.
template <typename Function>
inline void map_row(const float* a, int64_t n, float* out, Function f) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) f(F32x16::load(a + i)).store(out + i);
  if (i < n) store_first(f(load_first(a + i, n - i)), out + i, n - i);
}

template <typename Function>
inline void map_rows(const float* a, const float* b, int64_t n, float* out, Function f) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) f(F32x16::load(a + i), F32x16::load(b + i)).store(out + i);
  if (i < n) store_first(f(load_first(a + i, n - i), load_first(b + i, n - i)), out + i, n - i);
}

inline void add(const float* a, const float* b, int64_t n, float* out) {
  map_rows(a, b, n, out, [](F32x16 x, F32x16 y) { return x + y; });
}

inline void scale(const float* x, float factor, int64_t n, float* out) {
  const F32x16 f = F32x16::set1(factor);
  map_row(x, n, out, [f](F32x16 v) { return v * f; });
}

inline F32x16 softcap_lanes(F32x16 x, F32x16 cap) { return cap * tanh(x / cap); }

// cap * tanh(x / cap)
inline void softcap(const float* x, float cap, int64_t n, float* out) {
  const F32x16 c = F32x16::set1(cap);
  map_row(x, n, out, [c](F32x16 v) { return softcap_lanes(v, c); });
}

}  // namespace verispec::VERISPEC_ISA_NS
