// The block dot with AVX-512 VNNI. See dot.hpp.
#pragma once

#include "bytes.hpp"

namespace verispec::VERISPEC_ISA_NS {

constexpr int kDotRows = 16;  // rows that share one reading of the codes
// Groups of outputs read side by side for `rows` rows, as far as their totals fit in registers. Several
// streams keep more cache lines in flight than one, whose prefetching starts anew at every page: measured 15%
// faster.
constexpr int streams_for(int rows) { return rows <= 4 ? 4 : rows <= 8 ? 2 : 1; }

template <int kMaxCode, int kShift, bool kCentred>
struct BlockDot {
  static constexpr int kPlaceCodes = kShift;
  using Prepared = Bytes64;

  __m512i sum;

  static Prepared prepare(Bytes64 codes) { return codes; }

  void start(const int32_t* offset) { sum = kCentred ? _mm512_set1_epi32(*offset) : _mm512_setzero_si512(); }

  template <int kQuad>
  void add(Prepared codes, const int8_t* activations) {
    // Written out because the compiler loads the four activations into a register of their own otherwise.
    struct __attribute__((packed, may_alias)) Four {
      int32_t bytes;
    };
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(sum)
        : "v"(codes.v), "m"(*reinterpret_cast<const Four*>(activations)));
  }

  I32x16 finish(const int32_t*) const { return {sum}; }
};

}  // namespace verispec::VERISPEC_ISA_NS
