#include "phase_plan.hpp"

#include <algorithm>

namespace verispec {
namespace {

// Whether a chunk of the phase's first instruction can do `next` on the columns it has just produced.
bool can_follow_in_chunk(const ProgramPhase& phase, const Instruction& next,
                         const std::vector<Buffer>& buffers) {
  const Instruction& first = *phase.instructions[0];
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

void touch(Buffer& buffer, int phase) {
  if (buffer.first_phase < 0) buffer.first_phase = phase;
  buffer.last_phase = phase;
}

void find_lifetimes(const std::vector<ProgramPhase>& phases, std::vector<Buffer>& buffers) {
  for (int p = 0; p < static_cast<int>(phases.size()); ++p) {
    for (const Instruction* in : phases[p].instructions) {
      for (BufferId id : in->reads) touch(buffers[id], p);
      for (BufferId id : in->writes) touch(buffers[id], p);
    }
  }
  for (Buffer& buffer : buffers) {
    if (buffer.kept) {
      buffer.first_phase = 0;
      buffer.last_phase = static_cast<int>(phases.size());
    }
  }
}

size_t buffer_bytes(const Buffer& buffer, const PassShape& shape) {
  constexpr size_t kAlignment = 64;
  const int rows = buffer.domain == Domain::kPass ? shape.rows : shape.outputs;
  const size_t bytes =
      buffer.quantised ? quantised_bytes(rows, buffer.width) : sizeof(float) * rows * buffer.width;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The lowest offset at which `bytes` bytes overlap none of `placed` (sorted by offset).
size_t lowest_gap(const std::vector<const Buffer*>& placed, size_t bytes) {
  size_t offset = 0;
  for (const Buffer* other : placed) {
    if (offset + bytes <= other->offset) break;
    offset = std::max(offset, other->offset + other->bytes);
  }
  return offset;
}

}  // namespace

std::vector<ProgramPhase> plan_phases(const std::vector<Instruction>& instructions,
                                      const std::vector<Buffer>& buffers) {
  std::vector<ProgramPhase> phases;
  for (const Instruction& in : instructions) {
    const bool joins = !phases.empty() && (can_follow_in_row(phases.back(), in) ||
                                           can_follow_in_chunk(phases.back(), in, buffers));
    if (!joins) phases.emplace_back();
    phases.back().instructions.push_back(&in);
  }
  return phases;
}

size_t place_buffers(const std::vector<ProgramPhase>& phases, std::vector<Buffer>& buffers,
                     const PassShape& shape) {
  find_lifetimes(phases, buffers);
  std::vector<const Buffer*> placed;
  size_t total = 0;
  for (Buffer& buffer : buffers) {
    buffer.bytes = buffer_bytes(buffer, shape);
    std::vector<const Buffer*> neighbours;
    for (const Buffer* other : placed) {
      const bool together =
          other->first_phase <= buffer.last_phase && buffer.first_phase <= other->last_phase;
      if (together) neighbours.push_back(other);
    }
    buffer.offset = lowest_gap(neighbours, buffer.bytes);
    total = std::max(total, buffer.offset + buffer.bytes);
    const auto later =
        std::upper_bound(placed.begin(), placed.end(), &buffer,
                         [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; });
    placed.insert(later, &buffer);
  }
  return total;
}

}  // namespace verispec
