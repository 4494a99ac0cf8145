#include "memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <new>
#include <utility>

namespace verispec {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t page_size() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

uintptr_t round_up(uintptr_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

void discard_pages(uintptr_t begin, uintptr_t end) {
  begin = round_up(begin, page_size());
  end = end / page_size() * page_size();
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

// Whether one read-only mapping of a file covers [begin, end).
bool is_file_mapping(uintptr_t begin, uintptr_t end) {
  FILE* maps = std::fopen("/proc/self/maps", "re");
  if (!maps) return false;
  bool found = false;
  char line[512];
  bool line_start = true;
  while (!found && std::fgets(line, sizeof line, maps)) {
    uintptr_t from = 0, to = 0;
    char access[5] = {};
    unsigned long inode = 0;
    if (line_start &&
        std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*x %*x:%*x %lu", &from, &to, access, &inode) == 4) {
      found = from <= begin && end <= to && access[1] == '-' && inode != 0;
    }
    line_start = false;
    for (const char* c = line; *c; ++c) line_start = *c == '\n';
  }
  std::fclose(maps);
  return found;
}

}  // namespace

Memory::Memory(size_t bytes, Pages pages) : size_(bytes) {
  if (bytes == 0) return;
  const size_t alignment = pages == Pages::kHuge ? kHugePage : page_size();
  mapped_ = round_up(bytes, alignment) + (pages == Pages::kHuge ? alignment : 0);
  mapping_ =
      mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw std::bad_alloc();
  }
  data_ = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<uintptr_t>(mapping_), alignment));
  if (pages == Pages::kHuge) madvise(data_, round_up(bytes, alignment), MADV_HUGEPAGE);  // only advice
}

Memory::~Memory() { release(); }

Memory::Memory(Memory&& other) noexcept { *this = std::move(other); }

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void Memory::discard(size_t offset, size_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data_) + offset;
  discard_pages(begin, begin + bytes);
}

void Memory::release() {
  if (mapping_) munmap(mapping_, mapped_);
  mapping_ = nullptr;
}

void drop_file_pages(const void* data, size_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data);
  if (is_file_mapping(begin, begin + bytes)) discard_pages(begin, begin + bytes);
}

}  // namespace verispec
