// The block dot in plain C++. See dot.hpp.
#pragma once

#include "bytes.hpp"

namespace verispec::VERISPEC_ISA_NS {

constexpr int kDotRows = 2;                   // rows that share one reading of the codes
constexpr int streams_for(int) { return 1; }  // arithmetic is the limit here, not memory

template <int kMaxCode, int kShift, bool kCentred>
struct BlockDot {
  static constexpr int kPlaceCodes = kShift;
  using Prepared = Bytes64;

  int32_t sum[16];

  static const Prepared& prepare(const Bytes64& codes) { return codes; }

  void start(const int32_t* offset) {
    for (int lane = 0; lane < 16; ++lane) sum[lane] = kCentred ? *offset : 0;
  }

  template <int kQuad>
  void add(const Prepared& codes, const int8_t* activations) {
    for (int lane = 0; lane < 16; ++lane) {
      const uint8_t* code = codes.v + 4 * lane;
      sum[lane] += code[0] * activations[0] + code[1] * activations[1] + code[2] * activations[2] +
                   code[3] * activations[3];
    }
  }

  I32x16 finish(const int32_t*) const { return I32x16::load(sum); }
};

}  // namespace verispec::VERISPEC_ISA_NS
