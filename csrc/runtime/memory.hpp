// Anonymous memory that is committed page by page as it is first written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verispec {

class Memory {
 public:
  enum class Pages { kNormal, kHuge };

  Memory() = default;
  // Reserves `bytes` zero bytes, at 2 MiB alignment when kHuge. Throws std::bad_alloc when the system
  // refuses.
  Memory(size_t bytes, Pages pages);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  // Gives the whole pages inside [offset, offset + bytes) back to the system; they read as zero afterwards.
  void discard(size_t offset, size_t bytes);

 private:
  void release();

  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// Lets the system drop the resident pages of [data, data + bytes), whole pages only, if they belong to a
// private read-only mapping of a file, from which a later read brings them back. Any other memory is left
// alone.
void drop_file_pages(const void* data, size_t bytes);

}  // namespace verispec
