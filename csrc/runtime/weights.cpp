#include "weights.hpp"

#include <algorithm>
#include <string>

#include "../weights/pack.hpp"
#include "check.hpp"

namespace verispec {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSliceBytes = size_t{4} << 20;  // of the file, packed before its pages are dropped
constexpr int64_t kMaxExtent = int64_t{1} << 30;

struct Slice {
  WeightType type;
  int64_t n, k;
  const uint8_t* file;
  uint8_t* packed;
  int64_t group_begin;
  int64_t group_end;
  int64_t groups_per_chunk;
};

void pack_chunk(const void* context, uint32_t chunk, int) {
  const Slice& slice = *static_cast<const Slice*>(context);
  const int64_t begin = slice.group_begin + chunk * slice.groups_per_chunk;
  const int64_t end = std::min(begin + slice.groups_per_chunk, slice.group_end);
  pack_groups(slice.type, slice.n, slice.k, slice.file, begin, end, slice.packed);
}

void check_shape(int64_t n, int64_t k) {
  require_range("matrix: outputs", n, 1, kMaxExtent);
  require_range("matrix: inputs", k, 1, kMaxExtent);
}

}  // namespace

std::shared_ptr<const Matrix> first_rows(const Matrix& matrix, int64_t n) {
  require_range("matrix: first rows", n, 1, matrix.packed.n);
  Matrix part = matrix;
  part.packed.n = n;
  part.packed.bytes = packed_bytes(part.packed.type, n, part.packed.k);
  return std::make_shared<const Matrix>(std::move(part));
}

bool is_quantised(WeightType type) {
  return type != WeightType::F32 && type != WeightType::F16 && type != WeightType::BF16;
}

Weights::Weights(size_t capacity) : memory_(std::make_shared<Memory>(capacity, Memory::Pages::kHuge)) {}

size_t Weights::packed_size(WeightType type, int64_t n, int64_t k) {
  check_shape(n, k);
  file_row_bytes(type, k);  // checks k against the type's block
  return (packed_bytes(type, n, k) + kAlignment - 1) / kAlignment * kAlignment;
}

std::shared_ptr<const Matrix> Weights::pack(WeightType type, int64_t n, int64_t k, const uint8_t* file,
                                            size_t file_bytes, ThreadPool& pool) {
  const size_t needed = packed_size(type, n, k);
  const size_t row_bytes = file_row_bytes(type, k);
  require_equal("matrix: bytes of the file", static_cast<int64_t>(row_bytes * n),
                static_cast<int64_t>(file_bytes));
  require(used_ + needed <= memory_->size(), "weights: expected at most " + std::to_string(memory_->size()) +
                                                 " packed bytes, found " + std::to_string(used_ + needed));
  uint8_t* packed = memory_->data() + used_;
  const int64_t groups = packed_groups(n);
  const int64_t per_slice = std::max<int64_t>(1, kSliceBytes / (row_bytes * kGroup));
  for (int64_t begin = 0; begin < groups; begin += per_slice) {
    const int64_t end = std::min(begin + per_slice, groups);
    const int64_t per_chunk = std::max<int64_t>(1, (end - begin) / (4 * pool.threads()));
    const Slice slice = {type, n, k, file, packed, begin, end, per_chunk};
    const ThreadPool::Phase phase = {pack_chunk, &slice,
                                     static_cast<uint32_t>((end - begin + per_chunk - 1) / per_chunk)};
    pool.run(&phase, 1);
    drop_file_pages(file + begin * kGroup * row_bytes,
                    (std::min(end * kGroup, n) - begin * kGroup) * row_bytes);
  }
  used_ += needed;
  return std::make_shared<const Matrix>(Matrix{{type, n, k, packed, packed_bytes(type, n, k)}, memory_});
}

std::shared_ptr<const Experts> Weights::pack_experts(WeightType type, int count, int64_t n, int64_t k,
                                                     const uint8_t* file, size_t file_bytes,
                                                     ThreadPool& pool) {
  require_range("experts: number", count, 1, kMaxExperts);
  check_shape(n, k);
  require_equal("experts: bytes of the file", static_cast<int64_t>(file_row_bytes(type, k)) * n * count,
                static_cast<int64_t>(file_bytes));
  // Where groups of outputs end with an expert's, all experts are one matrix.
  const int parts = n % kGroup == 0 ? 1 : count;
  const size_t part_bytes = file_bytes / static_cast<size_t>(parts);
  PackedMatrix first = {type, n, k, memory_->data() + used_, packed_bytes(type, n, k)};
  for (int part = 0; part < parts; ++part)
    pack(type, n * count / parts, k, file + static_cast<size_t>(part) * part_bytes, part_bytes, pool);
  return std::make_shared<const Experts>(Experts{first, count, memory_});
}

}  // namespace verispec
