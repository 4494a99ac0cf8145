// Packed weight matrices of one model in one reservation of huge pages, in the order they were added (which
// should be the order a pass reads them in).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../kernels/kernel_table.hpp"
#include "memory.hpp"
#include "thread_pool.hpp"

namespace verispec {

// A packed matrix that keeps the memory it lies in.
struct Matrix {
  PackedMatrix packed;
  std::shared_ptr<const Memory> memory;
};

// The matrices of a layer's experts, equal in type and shape, `first.bytes` apart.
struct Experts {
  PackedMatrix first;
  int count;
  std::shared_ptr<const Memory> memory;
};

// The first n outputs of a matrix, in the same memory. Throws std::invalid_argument unless it has as many.
std::shared_ptr<const Matrix> first_rows(const Matrix& matrix, int64_t n);

bool is_quantised(WeightType type);

// A norm weight or a bias.
struct Vector {
  std::vector<float> values;
  const float* data() const { return values.data(); }
  int64_t size() const { return static_cast<int64_t>(values.size()); }
};

class Weights {
 public:
  // Reserves `capacity` bytes (the sum of packed_size of all matrices); they are committed as they are
  // filled.
  explicit Weights(size_t capacity);

  // What one matrix takes of the capacity. Throws std::invalid_argument for a bad shape.
  static size_t packed_size(WeightType type, int64_t n, int64_t k);

  // Packs an n x k matrix from its bytes in the file, slice by slice; pages of a read-only private file
  // mapping are dropped as soon as they have been packed. Throws std::invalid_argument for a bad shape or
  // byte count, or when the capacity does not suffice.
  std::shared_ptr<const Matrix> pack(WeightType type, int64_t n, int64_t k, const uint8_t* file,
                                     size_t file_bytes, ThreadPool& pool);

  // The same for `count` matrices that follow one another in the file, each n x k; each takes
  // packed_size(type, n, k) of the capacity.
  std::shared_ptr<const Experts> pack_experts(WeightType type, int count, int64_t n, int64_t k,
                                              const uint8_t* file, size_t file_bytes, ThreadPool& pool);

  size_t used() const { return used_; }

 private:
  std::shared_ptr<Memory> memory_;
  size_t used_ = 0;
};

}  // namespace verispec
