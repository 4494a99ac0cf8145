#include "state_cache.hpp"

#include <cstring>
#include <utility>

#include "check.hpp"
#include "hold_alone.hpp"

namespace verispec {
namespace {

constexpr int kMaxPlaces = 1 << 16;
constexpr int64_t kMaxFloats = int64_t{1} << 31;  // of one state of one layer
constexpr size_t kPage = 4096;
constexpr int64_t kLine = 16;                    // floats
constexpr size_t kLargeBytes = size_t{1} << 20;  // of a place: the second cache holds no window of such

int64_t whole_lines(int64_t floats) { return (floats + kLine - 1) / kLine * kLine; }

void require_open(bool closed) {
  require(!closed, "state cache: expected an open cache, found a closed one");
}

}  // namespace

StateCache::StateCache(int places, std::vector<LayerShape> layers)
    : places_(places), layers_(std::move(layers)) {
  require_range("state cache: places", places, 1, kMaxPlaces);
  int64_t floats = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::string where = "state cache layer " + std::to_string(i);
    require_range(where + ": floats of the convolution", layers_[i].convolution, 0, kMaxFloats);
    require_range(where + ": floats of the recurrent state", layers_[i].recurrent, 0, kMaxFloats);
    offsets_.push_back(floats);
    floats += whole_lines(layers_[i].convolution) + whole_lines(layers_[i].recurrent);
    saved_bytes_ += sizeof(float) * static_cast<size_t>(layers_[i].convolution + layers_[i].recurrent);
  }
  place_bytes_ = (sizeof(float) * static_cast<size_t>(floats) + kPage - 1) / kPage * kPage;
  memory_ = Memory(place_bytes_ * (static_cast<size_t>(places) + 1), Memory::Pages::kNormal);
}

float* StateCache::place(int index) const {
  return reinterpret_cast<float*>(memory_.data() + place_bytes_ * static_cast<size_t>(index + 1));
}

const StateCache::LayerShape& StateCache::shape(int layer) const {
  require_open(closed_);
  require_range("state cache: layer", layer, 0, layers() - 1);
  return layers_[layer];
}

StateLayer StateCache::at(int64_t offset) const {
  return {place(0) + offset, static_cast<int64_t>(place_bytes_ / sizeof(float)), place_bytes_ >= kLargeBytes};
}

StateLayer StateCache::convolution(int layer) const {
  shape(layer);
  return at(offsets_[layer]);
}

StateLayer StateCache::recurrent(int layer) const {
  return at(offsets_[layer] + whole_lines(shape(layer).convolution));
}

// Calls copy(state, offset in the saved bytes, bytes) for every state of a place.
template <typename Copy>
void StateCache::for_states(int index, Copy copy) {
  const auto alone = hold_alone("state cache", in_use_);
  require_open(closed_);
  require_range("state cache: place", index, 0, places_ - 1);
  size_t offset = 0;
  for (int layer = 0; layer < layers(); ++layer) {
    const LayerShape& shape = layers_[layer];
    float* state = place(index) + offsets_[layer];
    for (const int64_t floats : {shape.convolution, shape.recurrent}) {
      const size_t bytes = sizeof(float) * static_cast<size_t>(floats);
      copy(state, offset, bytes);
      state += whole_lines(floats);
      offset += bytes;
    }
  }
}

void StateCache::save(int index, uint8_t* to) {
  for_states(index, [to](const float* state, size_t offset, size_t bytes) {
    std::memcpy(to + offset, state, bytes);
  });
}

void StateCache::load(int index, const uint8_t* from) {
  for_states(index,
             [from](float* state, size_t offset, size_t bytes) { std::memcpy(state, from + offset, bytes); });
}

void StateCache::discard(int index) {
  const auto alone = hold_alone("state cache", in_use_);
  require_open(closed_);
  require_range("state cache: place", index, 0, places_ - 1);
  memory_.discard(place_bytes_ * (static_cast<size_t>(index) + 1), place_bytes_);
}

void StateCache::close() {
  const auto alone = hold_alone("state cache", in_use_);
  closed_ = true;
  memory_ = Memory();
}

}  // namespace verispec
