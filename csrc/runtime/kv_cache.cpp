#include "kv_cache.hpp"

#include <algorithm>
#include <mutex>
#include <stdexcept>

#include "check.hpp"

namespace verispec {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 24;
constexpr int kMaxSlots = 4096;
constexpr int kMaxHeads = 4096;
constexpr size_t kAlignment = 4096;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t slot_bytes(const KvLayer& layer) {
  return sizeof(uint16_t) * static_cast<size_t>(layer.blocks) * kKeyBlock * layer.kv_heads * layer.head_dim;
}

KvLayer checked_layer(const KvCache::LayerShape& shape, int64_t positions, size_t index) {
  const std::string where = "KV cache layer " + std::to_string(index);
  require_range(where + ": kv_heads", shape.kv_heads, 1, kMaxHeads);
  require_range(where + ": head_dim", shape.head_dim, 1, kMaxHeadDim);
  require_range(where + ": kept positions", shape.kept, 1, kMaxPositions);
  const int64_t blocks = (std::min(shape.kept, positions) + kKeyBlock - 1) / kKeyBlock;
  return {nullptr, nullptr, shape.kv_heads, shape.head_dim, static_cast<int>(blocks)};
}

std::unique_lock<std::shared_mutex> hold_alone(std::shared_mutex& in_use) {
  std::unique_lock<std::shared_mutex> lock(in_use, std::try_to_lock);
  if (!lock.owns_lock()) throw std::runtime_error("KV cache: a pass is running on it");
  return lock;
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
  const auto alone = hold_alone(in_use_);
  for (const KvLayer& layer : layers_) {
    const size_t bytes = slot_bytes(layer);
    for (const uint16_t* half : {layer.keys, layer.values}) {
      memory_.discard(reinterpret_cast<const uint8_t*>(half) - memory_.data() + slot * bytes, bytes);
    }
  }
}

void KvCache::close() {
  const auto alone = hold_alone(in_use_);
  closed_ = true;
  memory_ = Memory();
}

}  // namespace verispec
