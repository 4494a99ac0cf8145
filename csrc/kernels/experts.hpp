// What a mixture of experts does beside its linear layers, one row each.
#pragma once

#include "argmax.hpp"
#include "kernel_table.hpp"
#include "row_scan.hpp"

namespace verispec::VERISPEC_ISA_NS {

// The `used` greatest of the logits in descending order, the lowest index first among equals, and their
// shares of the softmax over all, or over the chosen ones when `normalise`. Sums run over sixteen lanes and a
// fixed tree, or in the order of the chosen.
inline void route(const float* logits, int64_t experts, int used, bool normalise, float* ids, float* shares) {
  float left[kMaxExperts];
  for (int64_t i = 0; i < experts; ++i) left[i] = logits[i];
  for (int slot = 0; slot < used; ++slot) {
    int64_t id;
    argmax(left, experts, shares + slot, &id);
    ids[slot] = static_cast<float>(id);
    left[id] = -__builtin_inff();
  }
  const float top = shares[0];
  for (int slot = 0; slot < used; slot += 16) {
    const F32x16 chosen = load_first(shares + slot, used - slot);
    store_first(exp_nonpositive(chosen - F32x16::set1(top)), shares + slot, used - slot);
  }
  float total = 0.0f;
  if (normalise) {
    for (int slot = 0; slot < used; ++slot) total += shares[slot];
  } else {
    total = sum_exp(logits, experts, top, 1.0f);
  }
  for (int slot = 0; slot < used; ++slot) shares[slot] = shares[slot] / total;
}

// out[c] = sum over slots in order of shares[slot] * x[slot * n + c], by fma from 0
inline void weighted_sum(const float* x, const float* shares, int used, int64_t n, float* out) {
  for (int64_t c = 0; c < n; c += 16) {
    F32x16 sum = F32x16::zero();
    for (int slot = 0; slot < used; ++slot)
      sum = fma(load_first(x + slot * n + c, n - c), F32x16::set1(shares[slot]), sum);
    store_first(sum, out + c, n - c);
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
