// Packed weight codes as vectors of 64 bytes, and conversions between bytes and the sixteen canonical lanes.
//   Bytes64 - load, &, |, splat, and shifted<N>: left by N bits (right when N < 0) inside 16-bit pairs, so
//   that
//             the caller masks away the bits that crossed a byte;
//   load_u8, load_i8 - sixteen bytes widened to I32x16; store_i8 - the low bytes of sixteen lanes in
//   -128..127; hsum - the exact sum of sixteen lanes.
#pragma once

#include "vec16.hpp"

#if defined(__AVX512BW__)
#include "bytes_avx512.hpp"
#elif defined(__AVX2__)
#include "bytes_avx2.hpp"
#else
#include "bytes_portable.hpp"
#endif
