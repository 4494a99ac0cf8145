// Repacks weight matrices from their GGUF bytes into the layout of weights/packed_layout.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../kernels/kernel_table.hpp"

namespace verispec {

// Bytes of one row of k columns in the file. Throws std::invalid_argument when k is not positive or not a
// multiple of the type's block.
size_t file_row_bytes(WeightType type, int64_t k);

// Groups of kGroup output rows that n rows make, and the bytes of one group and of all.
int64_t packed_groups(int64_t n);
size_t packed_group_bytes(WeightType type, int64_t k);
size_t packed_bytes(WeightType type, int64_t n, int64_t k);

// Packs groups [group_begin, group_end) of an n x k matrix. `file` is the first byte of the whole tensor;
// only rows [16 * group_begin, min(16 * group_end, n)) of it are read, so a caller can pack a slice, drop its
// pages and go on, and give different slices to different threads. `packed` is the first byte of the whole
// packed matrix, packed_bytes(type, n, k) bytes at 64-byte alignment (huge pages are worth a quarter of the
// speed of one-row passes: advise them before the first write).
void pack_groups(WeightType type, int64_t n, int64_t k, const uint8_t* file, int64_t group_begin,
                 int64_t group_end, uint8_t* packed);

}  // namespace verispec
