// Rotary position embedding of one row, both pairings.
#pragma once

#include "kernel_table.hpp"
#include "vec16.hpp"

namespace verispec::VERISPEC_ISA_NS {

// (x, y) -> (x cos - y sin, x sin + y cos), each product and sum rounded on its own, so that scalar code is
// the same arithmetic on every instruction set. Elements from 2 * pairs up to head_dim stay as they are.
inline void rotate_interleaved(float* head, const float* cos, const float* sin, int pairs) {
  for (int i = 0; i < pairs; ++i) {
    const float x = head[2 * i];
    const float y = head[2 * i + 1];
    head[2 * i] = x * cos[i] - y * sin[i];
    head[2 * i + 1] = x * sin[i] + y * cos[i];
  }
}

inline void rotate_halves(float* head, const float* cos, const float* sin, int pairs) {
  int i = 0;
  for (; i + 16 <= pairs; i += 16) {
    const F32x16 x = F32x16::load(head + i);
    const F32x16 y = F32x16::load(head + pairs + i);
    const F32x16 c = F32x16::load(cos + i);
    const F32x16 s = F32x16::load(sin + i);
    (x * c - y * s).store(head + i);
    (x * s + y * c).store(head + pairs + i);
  }
  for (; i < pairs; ++i) {
    const float x = head[i];
    const float y = head[pairs + i];
    head[i] = x * cos[i] - y * sin[i];
    head[pairs + i] = x * sin[i] + y * cos[i];
  }
}

inline void rope(float* x, int heads, int head_dim, const RopeTable& table, int64_t position) {
  const float* cos = table.cos + position * table.pairs;
  const float* sin = table.sin + position * table.pairs;
  for (int h = 0; h < heads; ++h) {
    float* head = x + static_cast<int64_t>(h) * head_dim;
    if (table.interleaved) {
      rotate_interleaved(head, cos, sin, table.pairs);
    } else {
      rotate_halves(head, cos, sin, table.pairs);
    }
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
