// Runs one chunk of a phase.
#pragma once

#include <cstdint>

#include "instruction.hpp"

namespace verispec {

// The greatest logit of one output row over one chunk of the head.
struct Best {
  float value;
  int64_t token;
};

// Everything a chunk needs beside its phase. Arrays hold one element per row of the pass, output_rows one per
// output row.
struct Frame {
  const KernelTable* kernels = nullptr;
  const Buffer* buffers = nullptr;
  uint8_t* base = nullptr;  // of the workspace
  int rows = 0;
  int outputs = 0;
  const int32_t* tokens = nullptr;
  const int32_t* positions = nullptr;
  const int32_t* slots = nullptr;
  const int32_t* output_rows = nullptr;
  bool want_logits = false;
  float* scratch = nullptr;  // a slice of the logits per worker, scratch_floats(outputs) each
  Best* best = nullptr;      // [chunks of the head][outputs]

  int rows_of(Domain domain) const { return domain == Domain::kPass ? rows : outputs; }
  uint8_t* bytes(BufferId id) const { return base + buffers[id].offset; }
  float* row(BufferId id, int64_t r) const {
    return reinterpret_cast<float*>(bytes(id)) + r * buffers[id].width;
  }
};

// How many groups of the head one chunk may hold, so that a slice of the logits stays in the first-level
// cache, and the room that such a slice needs.
int64_t head_chunk_groups(int outputs);
int64_t scratch_floats(int outputs);

void run_chunk(const Frame& frame, const ProgramPhase& phase, uint32_t chunk, int worker);

}  // namespace verispec
