#include "scalar_math.hpp"

#include <cstdint>
#include <cstring>
#include <limits>

namespace verispec {
namespace {

constexpr double kLn2High = 0x1.62e42feep-1;  // its products with exponents are exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kRoundShift = 0x1.8p52;  // adding it rounds to an integer, ties to even
constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint64_t bits_of(double x) {
  uint64_t u;
  std::memcpy(&u, &x, 8);
  return u;
}

double from_bits(uint64_t u) {
  double x;
  std::memcpy(&x, &u, 8);
  return x;
}

// 2^n for -1022 <= n <= 1023
double power_of_two(int64_t n) { return from_bits(static_cast<uint64_t>(n + 1023) << 52); }

// Horner's rule; coefficients from the constant term up.
template <int N>
double polynomial(const double (&coefficients)[N], double x) {
  double sum = coefficients[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = sum * x + coefficients[i];
  return sum;
}

// log(m * 2^e) for m = 1 + f in [sqrt(1/2), sqrt(2)): with s = f / (2 + f) it is the series of 2 atanh(s),
// and f - f^2 / 2 is taken out of it, which is exact enough to leave the last digits right.
double log_parts(double f, double e) {
  constexpr double kSeries[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                                2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double half_square = 0.5 * f * f;
  const double rest = s * (half_square + z * polynomial(kSeries, z));
  return e * kLn2High - ((half_square - (rest + e * kLn2Low)) - f);
}

}  // namespace

double exact_exp(double x) {
  constexpr double kSeries[] = {// (e^r - 1 - r) / r^2
                                1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                                1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                                1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  if (x != x) return x;
  if (x > 710.0) return kInfinity;
  if (x < -746.0) return 0.0;
  const double n = (x * 0x1.71547652b82fep0 + kRoundShift) - kRoundShift;
  const double high = x - n * kLn2High;
  const double low = n * kLn2Low;
  const double r = high - low;
  const double lost = (high - r) - low;
  const double q = r + (r * r * polynomial(kSeries, r) + lost);
  const int64_t exponent = static_cast<int64_t>(n);
  const int64_t half = exponent / 2;
  return (1.0 + q) * power_of_two(half) * power_of_two(exponent - half);
}

double exact_log(double x) {
  if (x != x || x == kInfinity) return x;
  if (x == 0.0) return -kInfinity;
  if (x < 0.0) return std::numeric_limits<double>::quiet_NaN();
  double e = 0.0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    e = -54.0;
  }
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcdull;
  const uint64_t offset = bits_of(x) - kRootHalf;
  e += static_cast<double>(static_cast<int64_t>(offset) >> 52);
  const double m = from_bits((offset & 0xfffffffffffffull) + kRootHalf);
  return log_parts(m - 1.0, e);
}

double exact_log1p(double x) {
  if (x > -0x1p-30 && x < 0x1p-30) return x - 0.5 * x * x;
  if (x > -0.29 && x < 0.41) return log_parts(x, 0.0);
  const double u = 1.0 + x;
  if (u == kInfinity || !(u > 0.0)) return exact_log(u);
  // u lost the last digits of x; their share of the logarithm is their share of u.
  return exact_log(u) + (x - (u - 1.0)) / u;
}

SineCosine exact_sine_cosine(double x) {
  constexpr double kSine[] = {-1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
                              -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
  constexpr double kCosine[] = {1.0 / 24,        -1.0 / 720,         1.0 / 40320,         -1.0 / 3628800,
                                1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
  // x - n * pi/2 with pi/2 in three parts; the products with the first two are exact for n < 2^20.
  constexpr double kPart1 = 0x1.921fb544p0;
  constexpr double kPart2 = 0x1.0b4611a6p-34;
  constexpr double kPart3 = 0x1.3198a2e037073p-69;
  const double n = (x * 0x1.45f306dc9c883p-1 + kRoundShift) - kRoundShift;
  const double first = x - n * kPart1;
  const double second = n * kPart2;
  const double high = first - second;
  const double back = high - first;
  const double low = ((first - (high - back)) - (second + back)) - n * kPart3;
  const double r = high + low;
  const double lost = (high - r) + low;
  const double z = r * r;
  const double sine = r + (r * z * polynomial(kSine, z) + lost * (1.0 - 0.5 * z));
  const double half = 0.5 * z;
  const double head = 1.0 - half;
  const double cosine = head + (((1.0 - head) - half) + (z * z * polynomial(kCosine, z) - r * lost));
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

}  // namespace verispec
