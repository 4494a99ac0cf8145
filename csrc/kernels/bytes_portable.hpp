// 64 bytes as an array. See bytes.hpp for the meaning of every operation.
#pragma once

#include <cstdint>
#include <cstring>

namespace verispec::VERISPEC_ISA_NS {

struct Bytes64 {
  uint8_t v[64];

  static Bytes64 load(const uint8_t* p) {
    Bytes64 r;
    std::memcpy(r.v, p, sizeof(r.v));
    return r;
  }
  static Bytes64 splat(int x) {
    Bytes64 r;
    std::memset(r.v, x, sizeof(r.v));
    return r;
  }
};

inline Bytes64 operator&(const Bytes64& a, const Bytes64& b) {
  Bytes64 r;
  for (int i = 0; i < 64; ++i) r.v[i] = a.v[i] & b.v[i];
  return r;
}
inline Bytes64 operator|(const Bytes64& a, const Bytes64& b) {
  Bytes64 r;
  for (int i = 0; i < 64; ++i) r.v[i] = a.v[i] | b.v[i];
  return r;
}
// Bits that leave a byte are lost here and masked away by the callers on the other paths.
template <int N>
inline Bytes64 shifted(const Bytes64& a) {
  Bytes64 r;
  for (int i = 0; i < 64; ++i) {
    r.v[i] = static_cast<uint8_t>(N >= 0 ? a.v[i] << (N >= 0 ? N : 0) : a.v[i] >> (N < 0 ? -N : 0));
  }
  return r;
}

inline I32x16 load_u8(const uint8_t* p) {
  int32_t lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = p[i];
  return I32x16::load(lanes);
}
inline I32x16 load_i8(const uint8_t* p) {
  int32_t lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = static_cast<int8_t>(p[i]);
  return I32x16::load(lanes);
}
inline void store_i8(const I32x16& low, const I32x16& high, int8_t* p, int32_t* sum_low, int32_t* sum_high) {
  int32_t lanes[2][16];
  low.store(lanes[0]);
  high.store(lanes[1]);
  *sum_low = *sum_high = 0;
  for (int i = 0; i < 16; ++i) {
    *sum_low += lanes[0][i];
    *sum_high += lanes[1][i];
    p[i] = static_cast<int8_t>(lanes[0][i]);
    p[16 + i] = static_cast<int8_t>(lanes[1][i]);
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
