#include "pack.hpp"

#include <cstring>
#include <stdexcept>
#include <string>

#include "file_blocks.hpp"
#include "packed_layout.hpp"

namespace verispec {
namespace {

constexpr int kLine = 64;

bool is_float(WeightType type) {
  return type == WeightType::F32 || type == WeightType::F16 || type == WeightType::BF16;
}

QuantisedLayout layout_of(WeightType type) {
  switch (type) {
    case WeightType::Q8_0:
      return kLayout<WeightType::Q8_0>;
    case WeightType::Q4_0:
      return kLayout<WeightType::Q4_0>;
    case WeightType::Q4_1:
      return kLayout<WeightType::Q4_1>;
    case WeightType::Q5_0:
      return kLayout<WeightType::Q5_0>;
    case WeightType::Q5_1:
      return kLayout<WeightType::Q5_1>;
    case WeightType::Q4_K:
      return kLayout<WeightType::Q4_K>;
    case WeightType::Q5_K:
      return kLayout<WeightType::Q5_K>;
    case WeightType::Q6_K:
      return kLayout<WeightType::Q6_K>;
    default:
      throw std::invalid_argument("not a quantised weight type");
  }
}

uint32_t quad_of(const uint8_t* codes, int quad) {
  uint32_t value;
  std::memcpy(&value, codes + 4 * quad, sizeof(value));
  return value;
}

void put_quad(uint8_t* vector, int lane, uint32_t value) {
  std::memcpy(vector + 4 * lane, &value, sizeof(value));
}

// The bits of 32 codes of one lane, to the places packed_layout.hpp names.
void put_codes(const QuantisedLayout& layout, const uint8_t* codes, int lane, uint8_t* block) {
  if (layout.code_bytes == 512) {
    for (int i = 0; i < 8; ++i) put_quad(block + i * kLine, lane, quad_of(codes, i));
    return;
  }
  constexpr uint32_t kNibbles = 0x0f0f0f0f;
  for (int j = 0; j < 4; ++j) {
    const uint32_t low = quad_of(codes, 2 * j) & kNibbles;
    const uint32_t high = quad_of(codes, 2 * j + 1) & kNibbles;
    put_quad(block + j * kLine, lane, low | (high << 4));
  }
  const int planes = layout.plane_bytes / kLine;
  const int quads = planes == 0 ? 0 : 8 / planes;  // per plane
  const uint32_t mask = planes == 2 ? 0x03030303 : 0x01010101;
  for (int h = 0; h < planes; ++h) {
    uint32_t plane = 0;
    for (int i = 0; i < quads; ++i) {
      plane |= ((quad_of(codes, h * quads + i) >> 4) & mask) << (i * planes);
    }
    put_quad(block + layout.code_bytes + h * kLine, lane, plane);
  }
}

void put_f16(uint8_t* lanes, int lane, uint16_t value) {
  std::memcpy(lanes + 2 * lane, &value, sizeof(value));
}

// The scales of one file block whose first packed block is number `first` of its unit.
void put_scales(WeightType type, const FileBlock& block, int first, int lane, uint8_t* header) {
  switch (type) {
    case WeightType::Q4_1:
    case WeightType::Q5_1:
      put_f16(header, lane, block.scale);
      put_f16(header + 32, lane, block.minimum);
      break;
    case WeightType::Q4_K:
    case WeightType::Q5_K:
      put_f16(header, lane, block.scale);
      put_f16(header + kSuperMinimum, lane, static_cast<uint16_t>(block.minimum ^ 0x8000));
      for (int b = 0; b < 8; ++b) {
        header[kSubScales + b * kGroup + lane] = block.scales[b];
        header[kSubMinima + b * kGroup + lane] = block.minima[b];
      }
      break;
    case WeightType::Q6_K:
      put_f16(header, lane, block.scale);
      for (int s = 0; s < 16; ++s) header[kSubScales + s * kGroup + lane] = block.scales[s];
      break;
    default:
      put_f16(header + 32 * first, lane, block.scale);
      break;
  }
}

void pack_quantised_row(WeightType type, int64_t k, const uint8_t* row, int lane, uint8_t* group) {
  const QuantisedLayout layout = layout_of(type);
  const FileBlockSize size = file_block_size(type);
  FileBlock opened;
  for (int64_t column = 0; column < k; column += size.columns, row += size.bytes) {
    open_file_block(type, row, opened);
    const int64_t block = column / kBlock;
    uint8_t* header = group + block / layout.unit_blocks * layout.unit_bytes();
    const int first = static_cast<int>(block % layout.unit_blocks);
    put_scales(type, opened, first, lane, header);
    for (int b = 0; b < size.columns / kBlock; ++b) {
      uint8_t* place = header + layout.header_bytes + (first + b) * layout.block_bytes();
      put_codes(layout, opened.codes + b * kBlock, lane, place);
    }
  }
}

void pack_float_row(int width, int64_t k, const uint8_t* row, int lane, uint8_t* group) {
  for (int64_t c = 0; c < k; ++c) std::memcpy(group + (c * kGroup + lane) * width, row + c * width, width);
}

}  // namespace

size_t file_row_bytes(WeightType type, int64_t k) {
  const FileBlockSize size = file_block_size(type);
  if (k <= 0 || k % size.columns != 0) {
    throw std::invalid_argument("a row has " + std::to_string(k) +
                                " columns, expected a positive multiple of " + std::to_string(size.columns));
  }
  return static_cast<size_t>(k / size.columns) * static_cast<size_t>(size.bytes);
}

int64_t packed_groups(int64_t n) { return (n + kGroup - 1) / kGroup; }

size_t packed_group_bytes(WeightType type, int64_t k) {
  if (is_float(type)) {
    const size_t bytes = static_cast<size_t>(k) * kGroup * static_cast<size_t>(file_block_size(type).bytes);
    return (bytes + kLine - 1) / kLine * kLine;
  }
  const QuantisedLayout layout = layout_of(type);
  const int64_t columns = static_cast<int64_t>(layout.unit_blocks) * kBlock;
  return static_cast<size_t>((k + columns - 1) / columns) * static_cast<size_t>(layout.unit_bytes());
}

size_t packed_bytes(WeightType type, int64_t n, int64_t k) {
  return static_cast<size_t>(packed_groups(n)) * packed_group_bytes(type, k);
}

void pack_groups(WeightType type, int64_t n, int64_t k, const uint8_t* file, int64_t group_begin,
                 int64_t group_end, uint8_t* packed) {
  const size_t row_bytes = file_row_bytes(type, k);
  const size_t group_bytes = packed_group_bytes(type, k);
  for (int64_t g = group_begin; g < group_end; ++g) {
    uint8_t* group = packed + static_cast<size_t>(g) * group_bytes;
    std::memset(group, 0, group_bytes);
    for (int lane = 0; lane < kGroup && g * kGroup + lane < n; ++lane) {
      const uint8_t* row = file + static_cast<size_t>(g * kGroup + lane) * row_bytes;
      if (is_float(type)) {
        pack_float_row(file_block_size(type).bytes, k, row, lane, group);
      } else {
        pack_quantised_row(type, k, row, lane, group);
      }
    }
  }
}

}  // namespace verispec
