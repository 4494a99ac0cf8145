// Packed weight codes as vectors of 64 bytes, and conversions between bytes and the sixteen canonical lanes.
//   Bytes64 - load, &, |, splat, and shifted<N>: left by N bits (right when N < 0) inside 16-bit pairs, so
//   that the caller masks away the bits that crossed a byte;
//   load_u8, load_i8 - sixteen bytes widened to I32x16;
//   store_i8 - thirty-two lanes in -127..127 as bytes, and the sums of the first and of the last sixteen.
#pragma once

#include "vec16.hpp"

#if defined(__AVX512BW__)
#include "bytes_avx512.hpp"
#elif defined(__AVX2__)
#include "bytes_avx2.hpp"
#else
#include "bytes_portable.hpp"
#endif
