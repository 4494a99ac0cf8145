// Where the buffers of a program lie: in the workspace, or in the scratch of whichever worker runs a chunk.
#include <algorithm>

#include "phase_plan.hpp"

namespace verispec {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

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
  const int rows = buffer.domain == Domain::kPass ? shape.rows : shape.outputs;
  return aligned(buffer.quantised ? quantised_bytes(rows, buffer.width)
                                  : sizeof(float) * rows * buffer.width);
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

// Elements of a local buffer that one chunk of the phase needs.
int64_t chunk_elements(const Instruction& first, const Chunk& chunk, const Buffer& buffer, int rows) {
  switch (first.op) {
    case Op::kLinear:
      return rows * (chunk.end - chunk.begin) * kGroup;
    case Op::kAttention:
      return (chunk.row_end - chunk.row_begin) * buffer.width;
    case Op::kDelta:
      return rows * (heads_of(first.delta, chunk).end - heads_of(first.delta, chunk).begin) *
             first.delta.value_dim;
    default:
      return buffer.width;
  }
}

int64_t local_elements(const ProgramPhase& phase, const Buffer& buffer, const PassShape& shape) {
  const int rows = buffer.domain == Domain::kPass ? shape.rows : shape.outputs;
  int64_t most = 0;
  for (const Chunk& chunk : phase.chunks)
    most = std::max(most, chunk_elements(*phase.instructions[0], chunk, buffer, rows));
  return most;
}

size_t head_scratch(const ProgramPhase& phase, const PassShape& shape) {
  int64_t groups = 0;
  for (const Chunk& chunk : phase.chunks) groups = std::max(groups, chunk.end - chunk.begin);
  return aligned(sizeof(float) * groups * kGroup * shape.outputs);
}

size_t expert_scratch(const ProgramPhase& phase) {
  int64_t groups = 0;
  for (const Chunk& chunk : phase.chunks) groups = std::max(groups, chunk.end - chunk.begin);
  return aligned(sizeof(float) * groups * kGroup * kExpertRows);
}

// Places what lives in one phase alone, float32 and written by a chunk for itself. Returns the scratch
// needed.
size_t place_locals(const std::vector<ProgramPhase>& phases, std::vector<Buffer>& buffers,
                    const PassShape& shape) {
  size_t most = 0;
  for (const ProgramPhase& phase : phases) {
    if (phase.instructions[0]->op == Op::kHead) {
      most = std::max(most, head_scratch(phase, shape));
      continue;
    }
    if (phase.instructions[0]->op == Op::kExpertLinear) {  // its chunks scatter columns over all slots
      most = std::max(most, expert_scratch(phase));
      continue;
    }
    size_t offset = 0;
    for (const Instruction* in : phase.instructions) {
      for (BufferId id : in->writes) {
        Buffer& buffer = buffers[id];
        if (buffer.local || buffer.quantised || buffer.kept || buffer.first_phase != buffer.last_phase)
          continue;
        buffer.local = true;
        buffer.offset = offset;
        offset += aligned(sizeof(float) * local_elements(phase, buffer, shape));
      }
    }
    most = std::max(most, offset);
  }
  return most;
}

size_t place_shared(std::vector<Buffer>& buffers, const PassShape& shape) {
  std::vector<const Buffer*> placed;
  size_t total = 0;
  for (Buffer& buffer : buffers) {
    if (buffer.local || buffer.input) continue;
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

}  // namespace

MemoryPlan place_buffers(const std::vector<ProgramPhase>& phases, std::vector<Buffer>& buffers,
                         const PassShape& shape) {
  find_lifetimes(phases, buffers);
  const size_t scratch = place_locals(phases, buffers, shape);
  return {place_shared(buffers, shape), scratch};
}

}  // namespace verispec
