// Turns the instructions of a program into phases, cuts the phases into chunks and gives the buffers their
// places.
#pragma once

#include <cstddef>
#include <vector>

#include "instruction.hpp"

namespace verispec {

struct PassShape {
  int rows;
  int outputs;
  int threads;
};

// Whether chunks of a delta rule take whole heads, so that a head's rows are prepared once and can be worked
// on further: when threads can share heads as well as panels.
inline bool takes_whole_heads(const DeltaShape& delta, const PassShape& shape) {
  return delta.value_heads >= 2 * shape.threads || delta.value_heads % shape.threads == 0;
}

// Instructions in order, joined wherever no barrier is needed between them.
std::vector<ProgramPhase> plan_phases(const std::vector<Instruction>& instructions,
                                      const std::vector<Buffer>& buffers, const PassShape& shape);

// Fills in the chunks of a phase.
void plan_chunks(ProgramPhase& phase, const PassShape& shape);

struct MemoryPlan {
  size_t shared;   // bytes of the workspace for shared buffers
  size_t scratch;  // bytes of every worker for local ones and slices of the head
};

// Gives every buffer a place, so that buffers alive in the same phase do not overlap. Phases must have
// chunks.
MemoryPlan place_buffers(const std::vector<ProgramPhase>& phases, std::vector<Buffer>& buffers,
                         const PassShape& shape);

}  // namespace verispec
