// The kernels of one instruction set as a table. Included by isa_<name>.cpp, which defines VERISPEC_ISA_NS
// and is compiled with that instruction set's flags.
#pragma once

#include "activation.hpp"
#include "argmax.hpp"
#include "attention.hpp"
#include "convolution.hpp"
#include "delta_rule.hpp"
#include "elementwise.hpp"
#include "embedding_row.hpp"
#include "experts.hpp"
#include "kernel_table.hpp"
#include "kv_cache.hpp"
#include "linear.hpp"
#include "norm.hpp"
#include "quantize.hpp"
#include "rope.hpp"
#include "row_scan.hpp"

namespace verispec::VERISPEC_ISA_NS {

constexpr KernelTable make_table(const char* name) {
  KernelTable table = {};
  table.name = name;
  table.quantize_row = quantize_row;
  table.linear = linear;
  table.embedding_row = embedding_row;
  table.rms_norm = rms_norm;
  table.add = add;
  table.scale = scale;
  table.swiglu = swiglu;
  table.geglu = geglu;
  table.softcap = softcap;
  table.sigmoid_gate = sigmoid_gate;
  table.sigmoid_scale = sigmoid_scale;
  table.rope = rope;
  table.store_kv = store_kv;
  table.attention = attention;
  table.convolution = convolution;
  table.delta_rule = delta_rule;
  table.route = route;
  table.weighted_sum = weighted_sum;
  table.argmax = argmax;
  table.find_at_least = find_at_least;
  table.sum_exp = sum_exp;
  table.find_contender = find_contender;
  return table;
}

}  // namespace verispec::VERISPEC_ISA_NS
