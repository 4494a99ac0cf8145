// Sixteen canonical f32 lanes: the vector every kernel is written in (contract C3).
//
// One of three implementations is chosen by the instruction set a translation unit is compiled for; all three
// give the same bits for every operation on finite values and infinities:
//   F32x16 - arithmetic, explicit fma, min/max, sqrt, f16/bf16/i32 conversions, fixed-tree reductions;
//   I32x16 - wrapping integer arithmetic, shifts and bit casts that the elementary functions need;
//   Mask16 - the result of a comparison, used by select().
// stream(p) is store(p) to an address that is a multiple of 64, past the caches where the CPU can do that;
// other threads may read it after end_streams(). NaN: max(a, b) is a > b ? a : b and min(a, b) is a < b ? a :
// b on every path; kernels are written so that no other NaN behaviour is relied on.
//
// Kernel headers are included at file scope by isa_<name>.cpp, which defines VERISPEC_ISA_NS; each opens
// namespace verispec::VERISPEC_ISA_NS itself. They use no inline function of the standard library, whose
// compiled copies the linker would merge across instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifndef VERISPEC_ISA_NS
#error "define VERISPEC_ISA_NS (avx512, avx2 or portable) before including kernel headers"
#endif

#if defined(__AVX512F__)
#include "vec16_avx512.hpp"
#elif defined(__AVX2__)
#include "vec16_avx2.hpp"
#else
#include "vec16_portable.hpp"
#endif

namespace verispec::VERISPEC_ISA_NS {

inline F32x16& operator+=(F32x16& a, F32x16 b) { return a = a + b; }
inline F32x16& operator-=(F32x16& a, F32x16 b) { return a = a - b; }
inline F32x16& operator*=(F32x16& a, F32x16 b) { return a = a * b; }

// fnma(a, b, c) = c - a * b, rounded once.
inline F32x16 fnma(F32x16 a, F32x16 b, F32x16 c) { return fma(-a, b, c); }

// The first n lanes from memory (all sixteen when n >= 16), `fill` in the rest; n >= 0.
inline F32x16 load_first(const float* p, int64_t n, float fill = 0.0f) {
  if (n >= 16) return F32x16::load(p);
  alignas(64) float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = fill;
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return F32x16::load(lanes);
}

inline void store_first(F32x16 v, float* p, int64_t n) {
  if (n >= 16) return v.store(p);
  alignas(64) float lanes[16];
  v.store(lanes);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}

}  // namespace verispec::VERISPEC_ISA_NS
