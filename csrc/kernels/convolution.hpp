// Causal depthwise convolution over a sequence, then SiLU.
//
// A row's channel is one chain of products over its own input and the kernel - 1 before it, the oldest first,
// whether those came with this pass or lie in the state.
#pragma once

#include "linear_float.hpp"
#include "math.hpp"

namespace verispec::VERISPEC_ISA_NS {

constexpr int kConvolutionSpan = 256;  // channels taken at once

// Inputs of a span of channels, from kernel - 1 before the chain's first row on. Those come from a copy,
// since the chain may write the place they lie at.
struct ConvolutionInputs {
  float before[kMaxTaps - 1][kConvolutionSpan];
  const float* x;
  int64_t ld;
  int taps;

  // Input `tap` (the oldest is 0) of row r.
  const float* at(int r, int tap) const {
    const int row = r - (taps - 1) + tap;
    return row >= 0 ? x + row * ld : before[row + taps - 1];
  }
};

// weights: [kernel][16] of one group of channels.
template <WeightType T>
inline void convolve_row(const ConvolutionInputs& in, int r, const uint8_t* group, int64_t group_bytes,
                         int64_t n, float* out) {
  const float* inputs[kMaxTaps];
  for (int tap = 0; tap < in.taps; ++tap) inputs[tap] = in.at(r, tap);
  for (int64_t c = 0; c < n; c += kGroup, group += group_bytes) {
    F32x16 sum = F32x16::zero();
    for (int tap = 0; tap < in.taps; ++tap)
      sum = fma(load_first(inputs[tap] + c, n - c),
                FloatColumn<T>::load(group + tap * FloatColumn<T>::kBytes), sum);
    store_first(times_sigmoid(sum, sum), out + c, n - c);
  }
}

template <WeightType T>
inline void convolve(const PackedMatrix& taps, const StateLayer& states, const ChainRows& rows, int64_t begin,
                     int64_t end, const float* x, int64_t x_ld, float* out, int64_t out_ld) {
  const int64_t group_bytes = (taps.k * FloatColumn<T>::kBytes + 63) / 64 * 64;
  const int before = static_cast<int>(taps.k) - 1;
  ConvolutionInputs in;
  in.ld = x_ld;
  in.taps = static_cast<int>(taps.k);
  for (int64_t column = begin; column < end; column += kConvolutionSpan) {
    const int64_t n = end - column < kConvolutionSpan ? end - column : kConvolutionSpan;
    const size_t bytes = static_cast<size_t>(n) * sizeof(float);
    in.x = x + (column - begin);
    const float* state = states.data + rows.from[0] * states.stride + column;
    for (int i = 0; i < before; ++i) std::memcpy(in.before[i], state + i * taps.n, bytes);
    for (int r = 0; r < rows.m; ++r) {
      convolve_row<T>(in, r, taps.data + column / kGroup * group_bytes, group_bytes, n,
                      out + r * out_ld + (column - begin));
      if (!rows.kept[r]) continue;
      float* left = states.data + rows.to[r] * states.stride + column;
      for (int i = 0; i < before; ++i) std::memcpy(left + i * taps.n, in.at(r, i + 1), bytes);
    }
  }
}

inline void convolution(const PackedMatrix& taps, const StateLayer& states, const ChainRows& rows,
                        int64_t begin, int64_t end, const float* x, int64_t x_ld, float* out,
                        int64_t out_ld) {
  const auto kernel = taps.type == WeightType::F32   ? convolve<WeightType::F32>
                      : taps.type == WeightType::F16 ? convolve<WeightType::F16>
                                                     : convolve<WeightType::BF16>;
  kernel(taps, states, rows, begin, end, x, x_ld, out, out_ld);
}

}  // namespace verispec::VERISPEC_ISA_NS
