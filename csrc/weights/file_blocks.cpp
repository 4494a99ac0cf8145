#include "file_blocks.hpp"

#include <cstring>

namespace verispec {
namespace {

uint16_t read_u16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | (p[1] << 8)); }

uint32_t read_u32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

// 32 codes of 16 bytes: columns 0..15 in the low nibbles, 16..31 in the high ones.
void open_nibbles(const uint8_t* packed, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = packed[i] & 15;
    codes[i + 16] = packed[i] >> 4;
  }
}

void add_fifth_bits(uint32_t bits, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] | (((bits >> i) & 1) << 4));
}

void open_q8_0(const uint8_t* p, FileBlock& block) {
  block.scale = read_u16(p);
  for (int i = 0; i < 32; ++i) block.codes[i] = p[2 + i] ^ 0x80;
}

// Eight 6-bit scales and eight 6-bit minima in 12 bytes.
void open_sub_scales(const uint8_t* p, FileBlock& block) {
  for (int i = 0; i < 4; ++i) {
    block.scales[i] = p[i] & 63;
    block.minima[i] = p[i + 4] & 63;
    block.scales[i + 4] = static_cast<uint8_t>((p[i + 8] & 15) | ((p[i] >> 6) << 4));
    block.minima[i + 4] = static_cast<uint8_t>((p[i + 8] >> 4) | ((p[i + 4] >> 6) << 4));
  }
}

// 256 codes of 128 bytes: each run of 32 bytes has 32 columns in its low nibbles, the next 32 in its high
// ones.
void open_wide_nibbles(const uint8_t* packed, uint8_t* codes) {
  for (int run = 0; run < 4; ++run, packed += 32, codes += 64) {
    for (int i = 0; i < 32; ++i) {
      codes[i] = packed[i] & 15;
      codes[i + 32] = packed[i] >> 4;
    }
  }
}

void open_q4_k(const uint8_t* p, FileBlock& block) {
  block.scale = read_u16(p);
  block.minimum = read_u16(p + 2);
  open_sub_scales(p + 4, block);
  open_wide_nibbles(p + 16, block.codes);
}

void open_q5_k(const uint8_t* p, FileBlock& block) {
  block.scale = read_u16(p);
  block.minimum = read_u16(p + 2);
  open_sub_scales(p + 4, block);
  open_wide_nibbles(p + 48, block.codes);
  for (int sub = 0; sub < 8; ++sub) {
    for (int i = 0; i < 32; ++i) {
      uint8_t& code = block.codes[sub * 32 + i];
      code = static_cast<uint8_t>(code | (((p[16 + i] >> sub) & 1) << 4));
    }
  }
}

void open_q6_k(const uint8_t* p, FileBlock& block) {
  for (int half = 0; half < 2; ++half) {
    const uint8_t* low = p + half * 64;
    const uint8_t* high = p + 128 + half * 32;
    uint8_t* codes = block.codes + half * 128;
    for (int i = 0; i < 32; ++i) {
      codes[i] = static_cast<uint8_t>((low[i] & 15) | ((high[i] & 3) << 4));
      codes[i + 32] = static_cast<uint8_t>((low[i + 32] & 15) | (((high[i] >> 2) & 3) << 4));
      codes[i + 64] = static_cast<uint8_t>((low[i] >> 4) | (((high[i] >> 4) & 3) << 4));
      codes[i + 96] = static_cast<uint8_t>((low[i + 32] >> 4) | (((high[i] >> 6) & 3) << 4));
    }
  }
  std::memcpy(block.scales, p + 192, 16);
  block.scale = read_u16(p + 208);
}

}  // namespace

FileBlockSize file_block_size(WeightType type) {
  switch (type) {
    case WeightType::F32:
      return {1, 4};
    case WeightType::F16:
      return {1, 2};
    case WeightType::BF16:
      return {1, 2};
    case WeightType::Q8_0:
      return {32, 34};
    case WeightType::Q4_0:
      return {32, 18};
    case WeightType::Q4_1:
      return {32, 20};
    case WeightType::Q5_0:
      return {32, 22};
    case WeightType::Q5_1:
      return {32, 24};
    case WeightType::Q4_K:
      return {256, 144};
    case WeightType::Q5_K:
      return {256, 176};
    case WeightType::Q6_K:
      return {256, 210};
  }
  return {0, 0};
}

void open_file_block(WeightType type, const uint8_t* p, FileBlock& block) {
  block.minimum = 0;
  switch (type) {
    case WeightType::Q8_0:
      open_q8_0(p, block);
      break;
    case WeightType::Q4_0:
      block.scale = read_u16(p);
      open_nibbles(p + 2, block.codes);
      break;
    case WeightType::Q4_1:
      block.scale = read_u16(p);
      block.minimum = read_u16(p + 2);
      open_nibbles(p + 4, block.codes);
      break;
    case WeightType::Q5_0:
      block.scale = read_u16(p);
      open_nibbles(p + 6, block.codes);
      add_fifth_bits(read_u32(p + 2), block.codes);
      break;
    case WeightType::Q5_1:
      block.scale = read_u16(p);
      block.minimum = read_u16(p + 2);
      open_nibbles(p + 8, block.codes);
      add_fifth_bits(read_u32(p + 4), block.codes);
      break;
    case WeightType::Q4_K:
      open_q4_k(p, block);
      break;
    case WeightType::Q5_K:
      open_q5_k(p, block);
      break;
    case WeightType::Q6_K:
      open_q6_k(p, block);
      break;
    default:
      break;
  }
}

}  // namespace verispec
