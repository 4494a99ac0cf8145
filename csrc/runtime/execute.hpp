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

// Rows [begin, begin + size) of a pass, of one sequence in order.
struct Chain {
  int begin;
  int size;
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
  const int32_t* block_ends = nullptr;  // the greatest position that the row's sequence has in the pass
  const int32_t* slots = nullptr;
  const int32_t* output_rows = nullptr;
  const int32_t* state_from = nullptr;
  const int32_t* state_to = nullptr;
  const uint8_t* state_kept = nullptr;  // see ChainRows
  const std::vector<Chain>* chains = nullptr;
  bool want_logits = false;
  uint8_t* scratch = nullptr;  // scratch_bytes per worker
  size_t scratch_bytes = 0;
  Best* best = nullptr;  // [chunks of the head][outputs]

  int rows_of(Domain domain) const { return domain == Domain::kPass ? rows : outputs; }
  uint8_t* bytes(BufferId id) const { return base + buffers[id].offset; }
  float* row(BufferId id, int64_t r) const {
    const Buffer& buffer = buffers[id];
    float* start = buffer.input ? const_cast<float*>(buffer.given) : reinterpret_cast<float*>(bytes(id));
    return start + r * buffer.width;
  }
  ChainRows rows_of(const Chain& chain) const {
    return {chain.size, state_from + chain.begin, state_to + chain.begin, state_kept + chain.begin};
  }
};

// Where a chunk finds its buffers: shared ones in the workspace, those of this chunk alone in its worker's
// scratch, which holds rows from row_begin on and `stride` columns from column_begin on.
struct Place {
  const Frame& frame;
  uint8_t* scratch;
  int row_begin;
  int64_t column_begin;
  int64_t stride;

  int64_t row_stride(BufferId id) const { return frame.buffers[id].local ? stride : frame.buffers[id].width; }
  float* at(BufferId id, int row, int64_t column) const {
    if (!frame.buffers[id].local) return frame.row(id, row) + column;
    return reinterpret_cast<float*>(scratch + frame.buffers[id].offset) + (row - row_begin) * stride +
           column - column_begin;
  }
};

// Everything of one row that a row-wise instruction computes.
void run_row(const Place& place, const Instruction& in, int row);

// Columns [begin, end) of one row of a column-wise instruction.
void run_columns(const Place& place, const Instruction& in, int row, int64_t begin, int64_t end);

// Channels [begin, end) of all rows; the delta rule for panels [begin, end) of all heads.
void run_convolution(const Place& place, const Instruction& in, int64_t begin, int64_t end);
void run_delta(const Place& place, const Instruction& in, int64_t begin, int64_t end);

// Experts: the order of all entries; the inputs of entries [begin, end); output groups [begin, end) of every
// expert.
void run_expert_order(const Frame& frame, const Instruction& in);
void run_expert_gather(const Frame& frame, const Instruction& in, int begin, int end);
void run_expert_linear(const Frame& frame, const Instruction& in, int64_t begin, int64_t end,
                       uint8_t* scratch);

void run_chunk(const Frame& frame, const ProgramPhase& phase, uint32_t chunk, int worker);

}  // namespace verispec
