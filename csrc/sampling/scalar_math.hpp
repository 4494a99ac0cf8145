// Elementary functions in double: ours, so that a sampled token and a rotary table do not depend on the C
// library. Compiled once, for the baseline instruction set and without contraction, so there is one set of
// bits. Errors stay within 1 unit in the last place of a double.
#pragma once

namespace verispec {

// e^x: 0 below the smallest denormal, infinity above the range.
double exact_exp(double x);

// Natural logarithm: -inf at zero, NaN below zero.
double exact_log(double x);

// log(1 + x), with full relative precision near zero; x > -1.
double exact_log1p(double x);

struct SineCosine {
  double sine, cosine;
};

// |x| < 2^20
SineCosine exact_sine_cosine(double x);

}  // namespace verispec
