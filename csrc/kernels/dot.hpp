// The exact integer dot of one block: weight codes of 16 output rows against int8 activations of one row.
//
// BlockDot<kMaxCode, kShift, kCentred> gives, in I32x16, whatever the path:
//   kCentred : sum over the columns of ((code << kShift) - 128) * activation
//   otherwise: sum of code * activation                                       (kShift is 0)
// where code <= kMaxCode and |activation| <= 127. Types whose zero is a code (8, 16, 32 or 128) are thus
// brought to the one centre 128, whose correction, -128 * (sum of activations), quantize_row has ready.
//   kPlaceCodes - the shift at which the caller must deliver the codes: free while nibbles are unpacked, but
//   a path may want small codes instead;
//   prepare(codes) - whatever the path derives from codes alone, shared by the rows;
//   start(offset), add<i>(prepared, activations), finish(offset) - quad i = 0, 1, ... of the block in order.
//
// Other instruction sets fit here: AVX-VNNI is the avx512 file with two halves, ARM's usdot the same in four.
// AMX was built and measured twice (a busy Sapphire Rapids machine, 16 to 256 rows, the same bits): its sums
// have to go through memory for every block of 32 columns before they can be scaled, and prompts gained 3% at
// most on average.
#pragma once

#include "bytes.hpp"

#if defined(__AVX512VNNI__)
#include "dot_avx512.hpp"
#elif defined(__AVX2__)
#include "dot_avx2.hpp"
#else
#include "dot_portable.hpp"
#endif
