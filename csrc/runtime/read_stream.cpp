#include "read_stream.hpp"

#include <chrono>
#include <cstdint>
#include <cstring>

namespace verispec {
namespace {

constexpr size_t kChunk = 256 << 10;
constexpr size_t kLine = 64;
constexpr size_t kAhead = 4096;  // prefetch distance; beyond the last line it touches nothing

size_t whole_chunks(size_t bytes) { return bytes < kChunk ? 1 : (bytes + kChunk - 1) / kChunk; }

uint64_t sum_chunk(const uint8_t* data) {
  uint64_t sums[8] = {};
  for (size_t line = 0; line < kChunk; line += kLine) {
    __builtin_prefetch(data + line + kAhead);
    uint64_t words[8];
    std::memcpy(words, data + line, kLine);
    for (int i = 0; i < 8; ++i) sums[i] += words[i];
  }
  uint64_t total = 0;
  for (uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

ReadStream::ReadStream(size_t bytes)
    : memory_(whole_chunks(bytes) * kChunk, Memory::Pages::kHuge), sums_(whole_chunks(bytes)) {
  std::memset(memory_.data(), 1, memory_.size());  // pages never written are all one page of zeros
}

double ReadStream::read(ThreadPool& pool) {
  const auto read_chunk = [](const void* context, uint32_t chunk, int) {
    auto* self = static_cast<ReadStream*>(const_cast<void*>(context));
    self->sums_[chunk] = sum_chunk(self->memory_.data() + chunk * kChunk);
  };
  const ThreadPool::Phase phase{read_chunk, this, static_cast<uint32_t>(sums_.size())};
  const auto started = std::chrono::steady_clock::now();
  pool.run(&phase, 1);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

}  // namespace verispec
