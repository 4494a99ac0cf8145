#include "kv_cache.hpp"

#include <algorithm>
#include <cstring>

#include "check.hpp"
#include "hold_alone.hpp"

namespace verispec {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 24;
constexpr int kMaxSlots = 4096;
constexpr int kMaxHeads = 4096;
constexpr size_t kAlignment = 4096;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t key_block_bytes(const KvLayer& layer) {  // of the keys, or of the values, of kKeyBlock positions
  return sizeof(uint16_t) * kKeyBlock * layer.kv_heads * layer.head_dim;
}

size_t slot_bytes(const KvLayer& layer) { return layer.blocks * key_block_bytes(layer); }

KvLayer checked_layer(const KvCache::LayerShape& shape, int64_t positions, size_t index) {
  if (shape.kv_heads == 0 && shape.head_dim == 0 && shape.kept == 0) return {};
  const std::string where = "KV cache layer " + std::to_string(index);
  require_range(where + ": kv_heads", shape.kv_heads, 1, kMaxHeads);
  require_range(where + ": head_dim", shape.head_dim, 1, kMaxHeadDim);
  require_range(where + ": kept positions", shape.kept, 1, kMaxPositions);
  const int64_t blocks = (std::min(shape.kept, positions) + kKeyBlock - 1) / kKeyBlock;
  return {nullptr, nullptr, shape.kv_heads, shape.head_dim, static_cast<int>(blocks)};
}

}  // namespace

KvCache::KvCache(int slots, int64_t positions, const std::vector<LayerShape>& layers)
    : slots_(slots), positions_(positions) {
  require_range("KV cache: slots", slots, 1, kMaxSlots);
  require_range("KV cache: positions", positions, 1, kMaxPositions);
  size_t bytes = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    layers_.push_back(checked_layer(layers[i], positions, i));
    bytes += 2 * aligned(slots * slot_bytes(layers_.back()));
  }
  memory_ = Memory(bytes, Memory::Pages::kNormal);
  uint8_t* at = memory_.data();
  for (KvLayer& layer : layers_) {
    const size_t half = aligned(slots * slot_bytes(layer));
    layer.keys = reinterpret_cast<uint16_t*>(at);
    layer.values = reinterpret_cast<uint16_t*>(at + half);
    at += 2 * half;
  }
}

const KvLayer& KvCache::layer(int index) const {
  require(!closed_, "KV cache: expected an open cache, found a closed one");
  require_range("KV cache: layer", index, 0, layers() - 1);
  return layers_[index];
}

void KvCache::discard_slot(int slot) {
  require(!closed_, "KV cache: expected an open cache, found a closed one");
  require_range("KV cache: slot", slot, 0, slots_ - 1);
  const auto alone = hold_alone("KV cache", in_use_);
  for (const KvLayer& layer : layers_) {
    const size_t bytes = slot_bytes(layer);
    for (const uint16_t* half : {layer.keys, layer.values}) {
      memory_.discard(reinterpret_cast<const uint8_t*>(half) - memory_.data() + slot * bytes, bytes);
    }
  }
}

size_t KvCache::saved_bytes(int64_t begin, int64_t end) const {
  require_range("KV cache: end of the copied positions", end, 1, positions_);
  require_range("KV cache: start of the copied positions", begin, 0, end - 1);
  require(begin % kKeyBlock == 0 && end % kKeyBlock == 0,
          "KV cache: copied positions: expected whole blocks of " + std::to_string(kKeyBlock) + ", found " +
              std::to_string(begin) + " to " + std::to_string(end));
  const int64_t blocks = (end - begin) / kKeyBlock;
  size_t bytes = 0;
  for (const KvLayer& layer : layers_) {
    if (layer.blocks == 0) continue;
    require_range("KV cache: copied blocks", blocks, 1, layer.blocks);
    bytes += 2 * static_cast<size_t>(blocks) * key_block_bytes(layer);
  }
  return bytes;
}

// Calls copy(place in the cache, offset in the saved bytes, bytes) for each key block of [begin, end).
template <typename Copy>
void KvCache::for_key_blocks(int slot, int64_t begin, int64_t end, Copy copy) {
  const auto alone = hold_alone("KV cache", in_use_);
  require(!closed_, "KV cache: expected an open cache, found a closed one");
  require_range("KV cache: slot", slot, 0, slots_ - 1);
  saved_bytes(begin, end);
  size_t offset = 0;
  for (const KvLayer& layer : layers_) {
    if (layer.blocks == 0) continue;
    const size_t bytes = key_block_bytes(layer);
    for (uint16_t* half : {layer.keys, layer.values}) {
      uint8_t* slot_start = reinterpret_cast<uint8_t*>(half) + slot * slot_bytes(layer);
      for (int64_t block = begin / kKeyBlock; block < end / kKeyBlock; ++block, offset += bytes)
        copy(slot_start + static_cast<size_t>(block % layer.blocks) * bytes, offset, bytes);
    }
  }
}

void KvCache::save(int slot, int64_t begin, int64_t end, uint8_t* to) {
  for_key_blocks(slot, begin, end, [to](const uint8_t* place, size_t offset, size_t bytes) {
    std::memcpy(to + offset, place, bytes);
  });
}

void KvCache::load(int slot, int64_t begin, int64_t end, const uint8_t* from) {
  for_key_blocks(slot, begin, end, [from](uint8_t* place, size_t offset, size_t bytes) {
    std::memcpy(place, from + offset, bytes);
  });
}

void KvCache::close() {
  const auto alone = hold_alone("KV cache", in_use_);
  closed_ = true;
  memory_ = Memory();
}

}  // namespace verispec
