// Activations of gated feed-forwards, and gates, one row each. out may be an input.
#pragma once

#include "elementwise.hpp"

namespace verispec::VERISPEC_ISA_NS {

// silu(gate) * up, silu(x) = x * sigmoid(x)
inline void swiglu(const float* gate, const float* up, int64_t n, float* out) {
  map_rows(gate, up, n, out, [](F32x16 g, F32x16 u) { return times_sigmoid(g, g) * u; });
}

// gelu(gate) * up with the tanh form of GELU. 0.5 * (1 + tanh(z)) is sigmoid(2z), which does not cancel for
// large negative gates: gelu(x) = x * sigmoid(2 * sqrt(2/pi) * (x + 0.044715 x^3)).
inline void geglu(const float* gate, const float* up, int64_t n, float* out) {
  const F32x16 linear = F32x16::set1(1.5957691216057308f);  // 2 * sqrt(2 / pi)
  const F32x16 cubic = F32x16::set1(1.5957691216057308f * 0.044715f);
  map_rows(gate, up, n, out, [linear, cubic](F32x16 g, F32x16 u) {
    const F32x16 z = g * fma(g * g, cubic, linear);
    return times_sigmoid(g, z) * u;
  });
}

inline void sigmoid_gate(const float* x, const float* gate, int64_t n, float* out) {
  map_rows(x, gate, n, out, [](F32x16 v, F32x16 g) { return times_sigmoid(v, g); });
}

inline void sigmoid_scale(const float* x, float gate, int64_t n, float* out) {
  const F32x16 g = F32x16::set1(gate);
  map_row(x, n, out, [g](F32x16 v) { return times_sigmoid(v, g); });
}

}  // namespace verispec::VERISPEC_ISA_NS
