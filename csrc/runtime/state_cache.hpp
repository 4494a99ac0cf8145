// The states of recurrent layers: whole copies of what every layer keeps of a sequence, one a place.
//
// Which place holds which position of which sequence is for the caller to know. A pass reads one place and
// writes others as it is told, row by row.
#pragma once

#include <cstdint>
#include <shared_mutex>
#include <vector>

#include "../kernels/kernel_table.hpp"
#include "memory.hpp"

namespace verispec {

class StateCache {
 public:
  struct LayerShape {
    int64_t convolution;  // floats a place; both are 0 for a layer that keeps nothing
    int64_t recurrent;
  };

  // Memory is committed as places are written. Throws std::invalid_argument for numbers out of range,
  // std::bad_alloc when the system refuses.
  StateCache(int places, std::vector<LayerShape> layers);

  int places() const { return places_; }
  int layers() const { return static_cast<int>(layers_.size()); }
  size_t bytes() const { return place_bytes_ * static_cast<size_t>(places_); }  // that can be committed
  bool closed() const { return closed_; }

  // Throws std::invalid_argument for an unknown layer or a closed cache.
  const LayerShape& shape(int layer) const;
  StateLayer convolution(int layer) const;
  StateLayer recurrent(int layer) const;

  // Copies a place out of the cache and into it, saved_bytes() bytes: layer after layer, the convolution's
  // state and then the recurrent one. Throws std::invalid_argument for a bad place and for a closed cache,
  // std::runtime_error while the cache is in use; so do all that follow.
  size_t saved_bytes() const { return saved_bytes_; }
  void save(int place, uint8_t* to);
  void load(int place, const uint8_t* from);

  // Gives the memory of a place back; it reads as zeros afterwards.
  void discard(int place);

  // Frees everything at once.
  void close();

  // Held by a pass while it runs.
  std::shared_mutex& in_use() { return in_use_; }

 private:
  float* place(int index) const;
  StateLayer at(int64_t offset) const;
  template <typename Copy>
  void for_states(int place, Copy copy);

  int places_;
  bool closed_ = false;
  std::vector<LayerShape> layers_;
  std::vector<int64_t> offsets_;  // floats from the start of a place to a layer's convolution state
  size_t place_bytes_ = 0;
  size_t saved_bytes_ = 0;
  Memory memory_;  // the zeros of place -1 first: they are never written, so that they are never committed
  std::shared_mutex in_use_;
};

}  // namespace verispec
