#include "execute.hpp"

#include <algorithm>
#include <cstring>

namespace verispec {
namespace {

struct Columns {
  int64_t begin;
  int64_t end;
};

// Quantises columns of one row to where quantize_row would put them: blocks are outermost in a tile of rows,
// so a range of blocks of a tile is the buffer of a narrower matrix.
void quantise(const Frame& frame, const Instruction& in, int row, Columns columns) {
  const int64_t width = frame.buffers[in.reads[0]].width;
  const int tile = row / kMaxTileRows * kMaxTileRows;
  const int tile_rows = std::min(frame.rows_of(in.domain) - tile, kMaxTileRows);
  uint8_t* place =
      frame.bytes(in.writes[0]) + quantised_bytes(tile, width) + quantised_bytes(tile_rows, columns.begin);
  frame.kernels->quantize_row(frame.row(in.reads[0], row) + columns.begin, columns.end - columns.begin,
                              row - tile, tile_rows, place);
}

void run_columns(const Frame& frame, const Instruction& in, int row, Columns columns) {
  if (in.op == Op::kQuantise) return quantise(frame, in, row, columns);
  const KernelTable& kernels = *frame.kernels;
  const int64_t n = columns.end - columns.begin;
  const float* a = frame.row(in.reads[0], row) + columns.begin;
  const float* b = in.reads.size() > 1 ? frame.row(in.reads[1], row) + columns.begin : nullptr;
  float* out = frame.row(in.writes[0], row) + columns.begin;
  switch (in.op) {
    case Op::kAdd:
      return kernels.add(a, b, n, out);
    case Op::kScale:
      return kernels.scale(a, in.factor, n, out);
    case Op::kSoftcap:
      return kernels.softcap(a, in.factor, n, out);
    case Op::kSwiGlu:
      return kernels.swiglu(a, b, n, out);
    default:
      return kernels.geglu(a, b, n, out);
  }
}

void rms_norm(const Frame& frame, const Instruction& in, int row) {
  const int64_t width = frame.buffers[in.reads[0]].width / in.count;
  const float* weight = in.vector ? in.vector->data() : nullptr;
  for (int group = 0; group < in.count; ++group) {
    frame.kernels->rms_norm(frame.row(in.reads[0], row) + group * width, weight, in.factor, width,
                            frame.row(in.writes[0], row) + group * width);
  }
}

void select_row(const Frame& frame, const Instruction& in, int row) {
  const size_t bytes = static_cast<size_t>(frame.buffers[in.reads[0]].width) * sizeof(float);
  std::memcpy(frame.row(in.writes[0], row), frame.row(in.reads[0], frame.output_rows[row]), bytes);
}

void run_row(const Frame& frame, const Instruction& in, int row) {
  const KernelTable& kernels = *frame.kernels;
  switch (in.op) {
    case Op::kEmbedding:
      return kernels.embedding_row(in.weights[0]->packed, frame.tokens[row], in.factor,
                                   frame.row(in.writes[0], row));
    case Op::kSelectOutputs:
      return select_row(frame, in, row);
    case Op::kRmsNorm:
      return rms_norm(frame, in, row);
    case Op::kRope:
      return kernels.rope(frame.row(in.writes[0], row), in.count,
                          static_cast<int>(frame.buffers[in.writes[0]].width / in.count), in.rope->table,
                          frame.positions[row]);
    case Op::kStoreKv:
      return kernels.store_kv(in.cache, frame.slots[row], frame.positions[row], frame.row(in.reads[0], row),
                              frame.row(in.reads[1], row));
    default:
      return run_columns(frame, in, row, {0, frame.buffers[in.writes[0]].width});
  }
}

void run_epilogue(const Frame& frame, const ProgramPhase& phase, int row_begin, int row_end,
                  Columns columns) {
  for (int row = row_begin; row < row_end; ++row) {
    for (size_t i = 1; i < phase.instructions.size(); ++i) {
      run_columns(frame, *phase.instructions[i], row, columns);
    }
  }
}

Activations activations(const Frame& frame, const Instruction& in) {
  return {frame.row(in.reads[0], 0), in.reads.size() > 1 ? frame.bytes(in.reads[1]) : nullptr};
}

const float* bias(const Instruction& in, int part) {
  return in.biases[part] ? in.biases[part]->data() : nullptr;
}

void run_linear(const Frame& frame, const ProgramPhase& phase, const Chunk& chunk) {
  const Instruction& in = *phase.instructions[0];
  const int rows = frame.rows_of(in.domain);
  const Activations input = activations(frame, in);
  const int first = chunk.part < 0 ? 0 : chunk.part;
  const int last = chunk.part < 0 ? static_cast<int>(in.weights.size()) - 1 : chunk.part;
  for (int part = first; part <= last; ++part) {
    const PackedMatrix& matrix = in.weights[part]->packed;
    frame.kernels->linear(matrix, rows, input, chunk.begin, chunk.end, bias(in, part),
                          frame.row(in.writes[part], 0), matrix.n);
  }
  const int64_t n = in.weights[first]->packed.n;
  run_epilogue(frame, phase, 0, rows, {chunk.begin * kGroup, std::min(chunk.end * kGroup, n)});
}

void run_attention(const Frame& frame, const ProgramPhase& phase, const Chunk& chunk) {
  const Instruction& in = *phase.instructions[0];
  const int rows = chunk.row_end - chunk.row_begin;
  const int64_t width = frame.buffers[in.writes[0]].width / in.cache.kv_heads;
  for (int64_t head = chunk.begin; head < chunk.end; ++head) {
    frame.kernels->attention(in.cache, in.shape, rows, frame.slots + chunk.row_begin,
                             frame.positions + chunk.row_begin, frame.row(in.reads[0], chunk.row_begin),
                             static_cast<int>(head), frame.row(in.writes[0], chunk.row_begin));
  }
  run_epilogue(frame, phase, chunk.row_begin, chunk.row_end, {chunk.begin * width, chunk.end * width});
}

// The greatest logits of a slice of the vocabulary, taken before the soft-cap. Without logits the slice lives
// in scratch that stays in the first-level cache.
void run_head(const Frame& frame, const ProgramPhase& phase, uint32_t index, int worker) {
  const Instruction& in = *phase.instructions[0];
  const Chunk& chunk = phase.chunks[index];
  const PackedMatrix& matrix = in.weights[0]->packed;
  const int64_t begin = chunk.begin * kGroup;
  const int64_t n = std::min(chunk.end * kGroup, matrix.n) - begin;
  const int64_t stride = frame.want_logits ? matrix.n : (n + kGroup - 1) / kGroup * kGroup;
  float* slice = frame.want_logits ? frame.row(in.writes[0], 0) + begin
                                   : frame.scratch + worker * scratch_floats(frame.outputs);
  // The kernel writes output j at column j; the slice begins with output `begin`.
  float* column_zero = reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(slice) - begin * sizeof(float));
  frame.kernels->linear(matrix, frame.outputs, activations(frame, in), chunk.begin, chunk.end, bias(in, 0),
                        column_zero, stride);
  for (int row = 0; row < frame.outputs; ++row) {
    float* logits = slice + row * stride;
    Best& best = frame.best[static_cast<size_t>(index) * frame.outputs + row];
    frame.kernels->argmax(logits, n, &best.value, &best.token);
    best.token += begin;
    if (frame.want_logits && in.factor != 0.0f) frame.kernels->softcap(logits, in.factor, n, logits);
  }
}

}  // namespace

int64_t head_chunk_groups(int outputs) {
  constexpr int64_t kSliceFloats = 4096;
  constexpr int64_t kMostGroups = 64;
  return std::clamp<int64_t>(kSliceFloats / kGroup / outputs, 1, kMostGroups);
}

int64_t scratch_floats(int outputs) { return head_chunk_groups(outputs) * kGroup * outputs; }

void run_chunk(const Frame& frame, const ProgramPhase& phase, uint32_t index, int worker) {
  const Chunk& chunk = phase.chunks[index];
  switch (phase.instructions[0]->op) {
    case Op::kLinear:
      return run_linear(frame, phase, chunk);
    case Op::kAttention:
      return run_attention(frame, phase, chunk);
    case Op::kHead:
      return run_head(frame, phase, index, worker);
    default:
      for (int row = chunk.row_begin; row < chunk.row_end; ++row) {
        for (const Instruction* in : phase.instructions) run_row(frame, *in, row);
      }
  }
}

}  // namespace verispec
