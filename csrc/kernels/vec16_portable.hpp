// F32x16 as sixteen floats in plain C++, for any CPU. See vec16.hpp for the meaning of every operation.
#pragma once

#include <cstdint>
#include <cstring>

namespace verispec::VERISPEC_ISA_NS {

// a * b + c rounded once. The product of two floats is exact in double; the double sum is rounded to odd
// (the exact error of the sum decides), so that the final rounding to float cannot round twice.
inline float fma_once(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = static_cast<double>(c);
  const double sum = product + addend;
  const double rest = sum - product;
  const double error = (product - (sum - rest)) + (addend - rest);
  int64_t sum_bits, error_bits;
  std::memcpy(&sum_bits, &sum, 8);
  std::memcpy(&error_bits, &error, 8);
  const int64_t inexact = (error < 0.0) | (error > 0.0);  // false for the NaN that an infinite sum gives
  const int64_t beyond = static_cast<int64_t>(static_cast<uint64_t>(sum_bits ^ error_bits) >> 63) & inexact;
  sum_bits = (sum_bits - beyond) | inexact;
  double odd;
  std::memcpy(&odd, &sum_bits, 8);
  return static_cast<float>(odd);
}

inline float f16_to_f32(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu;
  const uint32_t fraction = h & 0x3ffu;
  uint32_t out;
  if (exponent == 0x1f) {
    out = sign | 0x7f800000u | (fraction << 13) | (fraction ? 0x400000u : 0u);
  } else if (exponent != 0) {
    out = sign | ((exponent + 112u) << 23) | (fraction << 13);
  } else {  // zero or denormal: an exact small multiple of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    std::memcpy(&out, &magnitude, 4);
    out |= sign;
  }
  float x;
  std::memcpy(&x, &out, 4);
  return x;
}

// Nearest, ties to even; values that round past 65504 become infinite.
inline uint16_t f32_to_f16(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  const uint32_t sign = (u >> 16) & 0x8000u;
  u &= 0x7fffffffu;
  uint32_t out;
  if (u > 0x7f800000u) {
    out = 0x7e00u | ((u >> 13) & 0x3ffu);
  } else if (u >= 0x47800000u) {
    out = 0x7c00u;
  } else if (u >= 0x38800000u) {  // normal: rounding may carry into the exponent, up to infinity
    out = (u - 0x38000000u + 0xfffu + ((u >> 13) & 1u)) >> 13;
  } else {  // denormal: adding 0.5 makes the f32 adder round at 2^-24
    float magnitude;
    std::memcpy(&magnitude, &u, 4);
    magnitude += 0.5f;
    std::memcpy(&out, &magnitude, 4);
    out -= 0x3f000000u;
  }
  return static_cast<uint16_t>(sign | out);
}

struct Mask16 {
  uint32_t v[16];  // all bits of a lane set or clear
};

struct I32x16 {
  int32_t v[16];

  static I32x16 load(const int32_t* p) {
    I32x16 r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
  static I32x16 set1(int32_t x) {
    I32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = x;
    return r;
  }
  void store(int32_t* p) const { std::memcpy(p, v, sizeof v); }
};

// Wrapping: computed unsigned, because signed overflow is undefined.
#define VERISPEC_I32_OPERATOR(op)                                                                    \
  inline I32x16 operator op(I32x16 a, I32x16 b) {                                                    \
    I32x16 r;                                                                                        \
    for (int i = 0; i < 16; ++i)                                                                     \
      r.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) op static_cast<uint32_t>(b.v[i])); \
    return r;                                                                                        \
  }
VERISPEC_I32_OPERATOR(+)
VERISPEC_I32_OPERATOR(-)
VERISPEC_I32_OPERATOR(&)
VERISPEC_I32_OPERATOR(|)
VERISPEC_I32_OPERATOR(^)
#undef VERISPEC_I32_OPERATOR

template <int N>
inline I32x16 shift_left(I32x16 a) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << N);
  return r;
}
// Arithmetic shift: the sign is kept.
template <int N>
inline I32x16 shift_right(I32x16 a) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = a.v[i] >> N;
  return r;
}

struct F32x16 {
  float v[16];

  static F32x16 load(const float* p) {
    F32x16 r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
  static F32x16 zero() { return set1(0.0f); }
  static F32x16 set1(float x) {
    F32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = x;
    return r;
  }
  static F32x16 from_f16(const uint16_t* p) {
    F32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = f16_to_f32(p[i]);
    return r;
  }
  static F32x16 from_bf16(const uint16_t* p) {
    F32x16 r;
    for (int i = 0; i < 16; ++i) {
      const uint32_t u = static_cast<uint32_t>(p[i]) << 16;
      std::memcpy(&r.v[i], &u, 4);
    }
    return r;
  }
  static F32x16 from_i32(I32x16 x) {
    F32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(x.v[i]);
    return r;
  }
  void store(float* p) const { std::memcpy(p, v, sizeof v); }
  void stream(float* p) const { store(p); }
  void to_f16(uint16_t* p) const {
    for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(v[i]);
  }
};

#define VERISPEC_F32_LANES(signature, expression)       \
  inline F32x16 signature {                             \
    F32x16 r;                                           \
    for (int i = 0; i < 16; ++i) r.v[i] = (expression); \
    return r;                                           \
  }
VERISPEC_F32_LANES(operator+(F32x16 a, F32x16 b), a.v[i] + b.v[i])
VERISPEC_F32_LANES(operator-(F32x16 a, F32x16 b), a.v[i] - b.v[i])
VERISPEC_F32_LANES(operator*(F32x16 a, F32x16 b), a.v[i] * b.v[i])
VERISPEC_F32_LANES(operator/(F32x16 a, F32x16 b), a.v[i] / b.v[i])
VERISPEC_F32_LANES(operator-(F32x16 a), -a.v[i])
VERISPEC_F32_LANES(max(F32x16 a, F32x16 b), a.v[i] > b.v[i] ? a.v[i] : b.v[i])
VERISPEC_F32_LANES(min(F32x16 a, F32x16 b), a.v[i] < b.v[i] ? a.v[i] : b.v[i])
VERISPEC_F32_LANES(sqrt(F32x16 a), __builtin_sqrtf(a.v[i]))
VERISPEC_F32_LANES(abs(F32x16 a), __builtin_fabsf(a.v[i]))
// m ? a : b
VERISPEC_F32_LANES(select(Mask16 m, F32x16 a, F32x16 b), m.v[i] ? a.v[i] : b.v[i])
#undef VERISPEC_F32_LANES

__attribute__((noinline)) inline void fma_with_care(const F32x16& a, const F32x16& b, const F32x16& c,
                                                    F32x16& r) {
  for (int i = 0; i < 16; ++i) r.v[i] = fma_once(a.v[i], b.v[i], c.v[i]);
}

// Rounding the double sum to float is right unless that sum, itself rounded, lies exactly between two floats
// or below the normal ones; the rare vector with such a lane is done again with care.
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  constexpr int kLow = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 1;
  double sums[16];
  F32x16 r;
  for (int i = 0; i < 16; ++i)
    sums[i] = static_cast<double>(a.v[i]) * static_cast<double>(b.v[i]) + static_cast<double>(c.v[i]);
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(sums[i]);
  uint32_t words[32];
  std::memcpy(words, sums, sizeof words);
  uint32_t doubtful = 0;
  for (int i = 0; i < 16; ++i) {
    const uint32_t low = words[2 * i + kLow];
    const uint32_t high = words[2 * i + 1 - kLow] & 0x7fffffffu;
    doubtful |= ((low & 0x1fffffffu) == 0x10000000u) | ((high < 0x38100000u) & ((low | high) != 0));
  }
  if (__builtin_expect(doubtful != 0, 0)) fma_with_care(a, b, c, r);
  return r;
}

inline I32x16 bits(F32x16 a) {
  I32x16 r;
  std::memcpy(r.v, a.v, sizeof r.v);
  return r;
}
inline F32x16 from_bits(I32x16 a) {
  F32x16 r;
  std::memcpy(r.v, a.v, sizeof r.v);
  return r;
}
// Nearest integer, ties to even; defined for |x| <= 2^22.
inline I32x16 round_i32(F32x16 a) {
  constexpr float kShift = 0x1.8p23f;  // the f32 adder rounds at 1 here
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<int32_t>((a.v[i] + kShift) - kShift);
  return r;
}

#define VERISPEC_COMPARE(op)                                                   \
  inline Mask16 operator op(F32x16 a, F32x16 b) {                              \
    Mask16 r;                                                                  \
    for (int i = 0; i < 16; ++i) r.v[i] = a.v[i] op b.v[i] ? 0xffffffffu : 0u; \
    return r;                                                                  \
  }
VERISPEC_COMPARE(>)
VERISPEC_COMPARE(>=)
VERISPEC_COMPARE(<)
VERISPEC_COMPARE(==)
#undef VERISPEC_COMPARE

// Lanes [begin, end).
inline Mask16 lanes(int begin, int end) {
  Mask16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = (i >= begin && i < end) ? 0xffffffffu : 0u;
  return r;
}
inline uint32_t lane_bits(Mask16 m) {
  uint32_t r = 0;
  for (int i = 0; i < 16; ++i) r |= (m.v[i] & 1u) << i;
  return r;
}

inline float hsum(F32x16 a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
  return a.v[0];
}

inline float hmax(F32x16 a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  return a.v[0];
}

inline void end_streams() {}

}  // namespace verispec::VERISPEC_ISA_NS
