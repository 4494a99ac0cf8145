// Blocks of quantised weights as a GGUF file stores them, opened into codes and scales.
// Source of the formats: the ggml block structures, which the GGUF specification refers to.
#pragma once

#include <cstdint>

#include "../kernels/kernel_table.hpp"

namespace verispec {

// How many columns and bytes one block of `type` has in the file (a float counts as a block of one column).
struct FileBlockSize {
  int columns;
  int bytes;
};
FileBlockSize file_block_size(WeightType type);

// One block of the file. Codes are unsigned: a signed 8-bit code is stored + 128.
struct FileBlock {
  uint8_t codes[256];
  uint16_t scale;      // f16: d
  uint16_t minimum;    // f16: m, or dmin of a K type; 0 where the type has none
  uint8_t scales[16];  // K types: integer sub-scales (Q6_K: the bits of an int8)
  uint8_t minima[8];   // Q4_K Q5_K: integer sub-minima
};

// `type` must be a quantised type; `bytes` holds file_block_size(type).bytes bytes.
void open_file_block(WeightType type, const uint8_t* bytes, FileBlock& block);

}  // namespace verispec
