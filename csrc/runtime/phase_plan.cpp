#include "phase_plan.hpp"

#include <algorithm>

namespace verispec {
namespace {

// Experts of the same shape over the same entries, and what works on their columns; a block to quantise may
// be wider than a chunk.
bool can_follow_experts(const Instruction& first, const Instruction& next,
                        const std::vector<Buffer>& buffers) {
  const bool same_entries = next.op == Op::kExpertLinear && next.reads[1] == first.reads[1];
  const bool columns = is_columnwise(next.op) && next.op != Op::kQuantise && next.domain == first.domain;
  return (same_entries || columns) && buffers[next.writes[0]].width == buffers[first.writes[0]].width;
}

// What works on whole heads of the delta rule: their columns, or a norm of each.
bool can_follow_heads(const Instruction& first, const Instruction& next, const std::vector<Buffer>& buffers) {
  if (buffers[next.writes[0]].width != buffers[first.writes[0]].width) return false;
  if (next.op == Op::kRmsNorm) return next.count == first.delta.value_heads;
  return is_columnwise(next.op) && first.delta.value_dim % kBlock == 0;
}

// Whether a chunk of the phase's first instruction can do `next` on the columns it has just produced.
bool can_follow_in_chunk(const ProgramPhase& phase, const Instruction& next,
                         const std::vector<Buffer>& buffers, const PassShape& shape) {
  const Instruction& first = *phase.instructions[0];
  if (first.op == Op::kDelta && first.domain == next.domain && takes_whole_heads(first.delta, shape))
    return can_follow_heads(first, next, buffers);
  if (next.op == Op::kConvolution)
    return std::find(first.writes.begin(), first.writes.end(), next.reads[0]) != first.writes.end() &&
           first.op == Op::kLinear;
  if (first.op == Op::kExpertLinear) return can_follow_experts(first, next, buffers);
  if (first.domain != next.domain || !is_columnwise(next.op)) return false;
  if (first.op != Op::kLinear && first.op != Op::kAttention) return false;
  const int64_t width = buffers[next.writes[0]].width;
  for (BufferId id : first.writes) {
    if (buffers[id].width != width) return false;
  }
  return first.op == Op::kLinear || width / first.cache.kv_heads % kBlock == 0;
}

// Whether `next` needs nothing but its own row of what the row-wise phase computes. kSelectOutputs reads
// other rows, but those of the pass, and a phase over output rows computes none of them.
bool can_follow_in_row(const ProgramPhase& phase, const Instruction& next) {
  const Instruction& first = *phase.instructions[0];
  return is_rowwise(first.op) && is_rowwise(next.op) && first.domain == next.domain;
}

}  // namespace

std::vector<ProgramPhase> plan_phases(const std::vector<Instruction>& instructions,
                                      const std::vector<Buffer>& buffers, const PassShape& shape) {
  std::vector<ProgramPhase> phases;
  for (const Instruction& in : instructions) {
    const bool joins = !phases.empty() && (can_follow_in_row(phases.back(), in) ||
                                           can_follow_in_chunk(phases.back(), in, buffers, shape));
    if (!joins) phases.emplace_back();
    phases.back().instructions.push_back(&in);
  }
  return phases;
}

}  // namespace verispec
