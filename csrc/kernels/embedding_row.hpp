// One row of a packed matrix, dequantised: the token embedding, read from the weights the output head uses.
#pragma once

#include "../weights/packed_layout.hpp"
#include "linear_float.hpp"
#include "weight_blocks.hpp"

namespace verispec::VERISPEC_ISA_NS {

inline float f16_value(const uint8_t* p, int lane) {
  uint16_t lanes[16] = {};
  std::memcpy(lanes, p + 2 * lane, sizeof(uint16_t));
  float values[16];
  F32x16::from_f16(lanes).store(values);
  return values[0];
}

// Code of column `column` (0..31) of `lane` in a packed block.
inline int code_at(const QuantisedLayout& layout, const uint8_t* block, int lane, int column) {
  const int quad = column / 4;
  const int byte = 4 * lane + column % 4;
  if (layout.code_bytes == 512) return block[64 * quad + byte];
  const int low = (block[64 * (quad / 2) + byte] >> (4 * (quad % 2))) & 15;
  if (layout.plane_bytes == 0) return low;
  const int bits = layout.plane_bytes / 64;
  const int quads = 8 / bits;
  const int plane = block[layout.code_bytes + 64 * (quad / quads) + byte];
  return low | (((plane >> (bits * (quad % quads))) & ((1 << bits) - 1)) << 4);
}

// Factor, addend and zero code of a run of 16 columns: value = factor * (code - zero) + addend, rounded once.
struct Affine {
  float factor;
  float addend;
  int zero;
};

inline Affine affine_of(WeightType type, const uint8_t* header, int b, int half, int lane) {
  const float super = f16_value(header, lane);
  const int at = b * kGroup + lane;
  switch (type) {
    case WeightType::Q8_0:
      return {f16_value(header + 32 * b, lane), 0.0f, 128};
    case WeightType::Q4_0:
      return {f16_value(header + 32 * b, lane), 0.0f, 8};
    case WeightType::Q5_0:
      return {f16_value(header + 32 * b, lane), 0.0f, 16};
    case WeightType::Q4_K:
    case WeightType::Q5_K:
      return {super * static_cast<float>(header[kSubScales + at]),
              f16_value(header + kSuperMinimum, lane) * static_cast<float>(header[kSubMinima + at]), 0};
    case WeightType::Q6_K: {
      const uint8_t sub = header[kSubScales + (2 * b + half) * kGroup + lane];
      return {super * static_cast<float>(static_cast<int8_t>(sub)), 0.0f, 32};
    }
    default:
      return {super, f16_value(header + 32, lane), 0};  // Q4_1, Q5_1
  }
}

template <WeightType T>
void quantised_embedding_row(const PackedMatrix& w, int64_t index, float scale, float* out) {
  constexpr QuantisedLayout kShape = kLayout<T>;
  const int64_t blocks = w.k / kBlock;
  const int64_t group_bytes = (blocks + kShape.unit_blocks - 1) / kShape.unit_blocks * kShape.unit_bytes();
  const uint8_t* group = w.data + index / kGroup * group_bytes;
  const int lane = static_cast<int>(index % kGroup);
  for (int64_t block = 0; block < blocks; ++block) {
    const uint8_t* header = group + block / kShape.unit_blocks * kShape.unit_bytes();
    const int b = static_cast<int>(block % kShape.unit_blocks);
    const uint8_t* codes = header + kShape.header_bytes + b * kShape.block_bytes();
    for (int half = 0; half < 2; ++half) {
      const Affine affine = affine_of(T, header, b, half, lane);
      for (int c = half * 16; c < half * 16 + 16; ++c) {
        const float steps = static_cast<float>(code_at(kShape, codes, lane, c) - affine.zero);
        out[block * kBlock + c] = (affine.factor * steps + affine.addend) * scale;
      }
    }
  }
}

template <WeightType T>
void float_embedding_row(const PackedMatrix& w, int64_t index, float scale, float* out) {
  constexpr int kBytes = FloatColumn<T>::kBytes;
  const uint8_t* group = w.data + index / kGroup * ((w.k * kBytes + 63) / 64 * 64);
  float lanes[kGroup];
  for (int64_t c = 0; c < w.k; ++c) {
    FloatColumn<T>::load(group + c * kBytes).store(lanes);
    out[c] = lanes[index % kGroup] * scale;
  }
}

// out[k] = row `index` of w, times `scale`.
inline void embedding_row(const PackedMatrix& w, int64_t index, float scale, float* out) {
  switch (w.type) {
    case WeightType::F32:
      return float_embedding_row<WeightType::F32>(w, index, scale, out);
    case WeightType::F16:
      return float_embedding_row<WeightType::F16>(w, index, scale, out);
    case WeightType::BF16:
      return float_embedding_row<WeightType::BF16>(w, index, scale, out);
    case WeightType::Q8_0:
      return quantised_embedding_row<WeightType::Q8_0>(w, index, scale, out);
    case WeightType::Q4_0:
      return quantised_embedding_row<WeightType::Q4_0>(w, index, scale, out);
    case WeightType::Q4_1:
      return quantised_embedding_row<WeightType::Q4_1>(w, index, scale, out);
    case WeightType::Q5_0:
      return quantised_embedding_row<WeightType::Q5_0>(w, index, scale, out);
    case WeightType::Q5_1:
      return quantised_embedding_row<WeightType::Q5_1>(w, index, scale, out);
    case WeightType::Q4_K:
      return quantised_embedding_row<WeightType::Q4_K>(w, index, scale, out);
    case WeightType::Q5_K:
      return quantised_embedding_row<WeightType::Q5_K>(w, index, scale, out);
    case WeightType::Q6_K:
      return quantised_embedding_row<WeightType::Q6_K>(w, index, scale, out);
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
