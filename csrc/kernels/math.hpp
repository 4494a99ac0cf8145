// Elementary functions on sixteen lanes: ours, so that every instruction set gives the same bits.
// Argument reduction and error-free steps are the classical ones; the polynomials are minimax fits made for
// these intervals. Largest errors found against float64, in units of the last place: exp 1.0, log 0.9,
// tanh 2.2, softplus 2. NaN gives NaN.
#pragma once

#include "vec16.hpp"

namespace verispec::VERISPEC_ISA_NS {

constexpr float kLog2E = 0x1.715476p+0f;
constexpr float kLn2High = 0x1.62e43p-1f;  // ln 2 = high + low
constexpr float kLn2Low = -0x1.05c61p-29f;
constexpr float kRoundShift = 0x1.8p23f;  // adding it rounds |x| <= 2^22 to an integer, kept in the low bits

// exp(x) = 2^n * (1 + q): n as an integer and as a float, q = exp(r) - 1 for |r| <= ln 2 / 2.
struct ExpParts {
  I32x16 n;
  F32x16 n_float;
  F32x16 q;
};

inline ExpParts exp_parts(F32x16 x) {
  const F32x16 shift = F32x16::set1(kRoundShift);
  const F32x16 shifted = fma(x, F32x16::set1(kLog2E), shift);
  const F32x16 n = shifted - shift;
  F32x16 r = fma(n, F32x16::set1(-kLn2High), x);
  r = fma(n, F32x16::set1(-kLn2Low), r);
  F32x16 p = F32x16::set1(0x1.6dbc4cp-10f);
  p = fma(p, r, F32x16::set1(0x1.124146p-7f));
  p = fma(p, r, F32x16::set1(0x1.555454p-5f));
  p = fma(p, r, F32x16::set1(0x1.555486p-3f));
  p = fma(p, r, F32x16::set1(0.5f));
  return {bits(shifted) - bits(shift), n, fma(r * r, p, r)};
}

// 2^n for -126 <= n <= 127.
inline F32x16 power_of_two(I32x16 n) { return from_bits(shift_left<23>(n + I32x16::set1(127))); }

// Values below the float range round to denormals and zero, values above it give infinity.
inline F32x16 exp(F32x16 x) {
  x = min(F32x16::set1(89.0f), max(F32x16::set1(-104.0f), x));
  const ExpParts parts = exp_parts(x);
  const I32x16 half = shift_right<1>(parts.n);
  return (F32x16::set1(1.0f) + parts.q) * power_of_two(half) * power_of_two(parts.n - half);
}

// exp for x <= 0 whose tiny results do not matter: below -87 it is exactly zero, and the last bits are traded
// for speed (2 ulp). Softmax weights use it.
inline F32x16 exp_nonpositive(F32x16 x) {
  const F32x16 shift = F32x16::set1(kRoundShift);
  const F32x16 shifted = fma(x, F32x16::set1(kLog2E), shift);
  const F32x16 n = shifted - shift;
  F32x16 r = fma(n, F32x16::set1(-kLn2High), x);
  r = fma(n, F32x16::set1(-kLn2Low), r);
  F32x16 p = F32x16::set1(0x1.6dbc4cp-10f);
  p = fma(p, r, F32x16::set1(0x1.124146p-7f));
  p = fma(p, r, F32x16::set1(0x1.555454p-5f));
  p = fma(p, r, F32x16::set1(0x1.555486p-3f));
  p = fma(p, r, F32x16::set1(0.5f));
  p = fma(p, r, F32x16::set1(1.0f));
  p = fma(p, r, F32x16::set1(1.0f));
  // The low bits of `shifted` are n: added to the exponent. A NaN stays one.
  const F32x16 y = from_bits(bits(p) + shift_left<23>(bits(shifted)));
  return select(x < F32x16::set1(-87.0f), F32x16::zero(), y);
}

// Natural logarithm: -inf at zero, NaN below it, +inf at infinity; denormals are exact inputs like others.
inline F32x16 log(F32x16 x) {
  const F32x16 tiny = F32x16::set1(0x1p-126f);
  const Mask16 denormal = x < tiny;
  const F32x16 scaled = select(denormal, x * F32x16::set1(0x1p25f), x);
  // The exponent is taken so that the significand lies in [sqrt(1/2), sqrt(2)).
  const I32x16 offset = bits(scaled) - I32x16::set1(0x3f3504f3);
  const I32x16 e = shift_right<23>(offset);
  const F32x16 m = from_bits((offset & I32x16::set1(0x007fffff)) + I32x16::set1(0x3f3504f3));
  const F32x16 exponent = F32x16::from_i32(e) - select(denormal, F32x16::set1(25.0f), F32x16::zero());
  const F32x16 f = m - F32x16::set1(1.0f);
  const F32x16 f2 = f * f;
  F32x16 p = F32x16::set1(0x1.1b63b2p-4f);
  p = fma(p, f, F32x16::set1(-0x1.e4af18p-4f));
  p = fma(p, f, F32x16::set1(0x1.e72b72p-4f));
  p = fma(p, f, F32x16::set1(-0x1.fb083cp-4f));
  p = fma(p, f, F32x16::set1(0x1.232144p-3f));
  p = fma(p, f, F32x16::set1(-0x1.5563f2p-3f));
  p = fma(p, f, F32x16::set1(0x1.99a61ap-3f));
  p = fma(p, f, F32x16::set1(-0x1.ffffecp-3f));
  p = fma(p, f, F32x16::set1(0x1.555544p-2f));
  F32x16 rest = fma(f2, F32x16::set1(-0.5f), (f2 * f) * p);
  rest = fma(exponent, F32x16::set1(0x1.7f7d1cp-20f), rest);
  F32x16 y = fma(exponent, F32x16::set1(0x1.62e4p-1f), f + rest);  // this head of ln 2 times e is exact
  const F32x16 infinity = F32x16::set1(__builtin_inff());
  y = select(x < infinity, y, x);
  y = select(x == F32x16::zero(), -infinity, y);
  return select(x < F32x16::zero(), F32x16::set1(__builtin_nanf("")), y);
}

// log(1 + exp(x)). The logarithm of 1 + y needs what rounding took from the sum: without it small results,
// which decays near 1 come from, would lose their digits.
inline F32x16 softplus(F32x16 x) {
  const F32x16 one = F32x16::set1(1.0f);
  const F32x16 y = exp(-abs(x));
  const F32x16 sum = one + y;
  const F32x16 lost = y - (sum - one);
  return max(x, F32x16::zero()) + (log(sum) + lost / sum);
}

// expm1(y) / (expm1(y) + 2) for y = 2|x|, which keeps the digits of small arguments.
inline F32x16 tanh(F32x16 x) {
  const I32x16 sign = bits(x) & I32x16::set1(static_cast<int32_t>(0x80000000u));
  const F32x16 magnitude = abs(x);
  const F32x16 one = F32x16::set1(1.0f);
  const ExpParts parts = exp_parts(min(F32x16::set1(20.0f), magnitude + magnitude));
  const F32x16 power = power_of_two(parts.n);
  const F32x16 em1 = fma(power, parts.q, power - one);
  return from_bits(bits(em1 / (em1 + F32x16::set1(2.0f))) | sign);
}

// 1 / (1 + exp(-x)) multiplied by `factor`, as one division.
inline F32x16 times_sigmoid(F32x16 factor, F32x16 x) { return factor / (F32x16::set1(1.0f) + exp(-x)); }

}  // namespace verispec::VERISPEC_ISA_NS
