#include "execute.hpp"

#include <algorithm>

namespace verispec {
namespace {

Activations activations(const Frame& frame, const Instruction& in) {
  return {frame.row(in.reads[0], 0), in.reads.size() > 1 ? frame.bytes(in.reads[1]) : nullptr};
}

const float* bias(const Instruction& in, int part) {
  return in.biases[part] ? in.biases[part]->data() : nullptr;
}

// The kernel writes output j at column j, and `out` is the place of output `begin`.
float* place_of_output_zero(float* out, int64_t begin) {
  return reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(out) - begin * sizeof(float));
}

// The convolutions of a linear layer's outputs, each where the columns of its own matrix are made.
void run_convolutions(const Place& place, const ProgramPhase& phase, int part, int64_t begin, int64_t end) {
  for (size_t i = 1; i < phase.instructions.size(); ++i) {
    const Instruction& in = *phase.instructions[i];
    if (in.op != Op::kConvolution) continue;
    if (part < 0 || in.reads[0] == phase.instructions[0]->writes[part])
      run_convolution(place, in, begin, end);
  }
}

void run_epilogue(const Place& place, const ProgramPhase& phase, int row_end, int64_t begin, int64_t end) {
  for (int row = place.row_begin; row < row_end; ++row) {
    for (size_t i = 1; i < phase.instructions.size(); ++i) {
      const Instruction& in = *phase.instructions[i];
      if (in.op != Op::kConvolution) run_columns(place, in, row, begin, end);
    }
  }
}

void run_linear(const Frame& frame, const ProgramPhase& phase, const Chunk& chunk, uint8_t* scratch) {
  const Instruction& in = *phase.instructions[0];
  const int rows = frame.rows_of(in.domain);
  const int64_t begin = chunk.begin * kGroup;
  const Place place = {frame, scratch, 0, begin, (chunk.end - chunk.begin) * kGroup};
  const Activations input = activations(frame, in);
  const int first = chunk.part < 0 ? 0 : chunk.part;
  const int last = chunk.part < 0 ? static_cast<int>(in.weights.size()) - 1 : chunk.part;
  for (int part = first; part <= last; ++part) {
    float* out = place_of_output_zero(place.at(in.writes[part], 0, begin), begin);
    frame.kernels->linear(in.weights[part]->packed, rows, input, chunk.begin, chunk.end, bias(in, part), out,
                          place.row_stride(in.writes[part]));
  }
  const int64_t end = std::min(chunk.end * kGroup, in.weights[first]->packed.n);
  run_convolutions(place, phase, chunk.part, begin, end);
  run_epilogue(place, phase, rows, begin, end);
}

void run_attention(const Frame& frame, const ProgramPhase& phase, const Chunk& chunk, uint8_t* scratch) {
  const Instruction& in = *phase.instructions[0];
  const int64_t width = frame.buffers[in.writes[0]].width;
  const int64_t head_width = width / in.cache.kv_heads;
  const Place place = {frame, scratch, chunk.row_begin, 0, width};
  const int32_t* last_seen = in.block ? frame.block_ends : frame.positions;
  for (int64_t head = chunk.begin; head < chunk.end; ++head) {
    frame.kernels->attention(in.cache, in.shape, chunk.row_end - chunk.row_begin,
                             frame.slots + chunk.row_begin, last_seen + chunk.row_begin,
                             frame.row(in.reads[0], chunk.row_begin), static_cast<int>(head),
                             place.at(in.writes[0], chunk.row_begin, 0));
  }
  run_epilogue(place, phase, chunk.row_end, chunk.begin * head_width, chunk.end * head_width);
}

void run_states(const Frame& frame, const ProgramPhase& phase, const Chunk& chunk, uint8_t* scratch) {
  const Instruction& in = *phase.instructions[0];
  if (in.op == Op::kConvolution) {
    const int64_t end = std::min(chunk.end * kGroup, in.weights[0]->packed.n);
    return run_convolution({frame, scratch, 0, 0, 0}, in, chunk.begin * kGroup, end);
  }
  const HeadRange heads = heads_of(in.delta, chunk);
  const int64_t begin = heads.begin * in.delta.value_dim, end = heads.end * in.delta.value_dim;
  const Place place = {frame, scratch, 0, begin, end - begin};
  run_delta(place, in, chunk.begin, chunk.end);
  run_epilogue(place, phase, frame.rows, begin, end);  // only behind whole heads is there anything to do
}

void run_experts(const Frame& frame, const ProgramPhase& phase, const Chunk& chunk, uint8_t* scratch) {
  const Instruction& first = *phase.instructions[0];
  if (first.op == Op::kExpertOrder) return run_expert_order(frame, first);
  if (first.op == Op::kExpertGather) return run_expert_gather(frame, first, chunk.row_begin, chunk.row_end);
  const int64_t outputs = first.experts->first.n;
  const int64_t begin = chunk.begin * kGroup, end = std::min(chunk.end * kGroup, outputs);
  for (const Instruction* in : phase.instructions) {
    if (in->op == Op::kExpertLinear) {
      run_expert_linear(frame, *in, chunk.begin, chunk.end, scratch);
      continue;
    }
    for (int row = 0; row < frame.rows_of(first.domain); ++row) {
      const Place place = {frame, scratch, row, 0, 0};
      for (int slot = 0; slot < first.count; ++slot)
        run_columns(place, *in, row, slot * outputs + begin, slot * outputs + end);
    }
  }
}

// The greatest logits of a slice of the vocabulary, taken before the soft-cap. Without logits the slice lives
// in scratch that stays in the first-level cache.
void run_head(const Frame& frame, const ProgramPhase& phase, uint32_t index, uint8_t* scratch) {
  const Instruction& in = *phase.instructions[0];
  const Chunk& chunk = phase.chunks[index];
  const PackedMatrix& matrix = in.weights[0]->packed;
  const int64_t begin = chunk.begin * kGroup;
  const int64_t n = std::min(chunk.end * kGroup, matrix.n) - begin;
  const int64_t stride = frame.want_logits ? matrix.n : (chunk.end - chunk.begin) * kGroup;
  float* slice = frame.want_logits ? frame.row(in.writes[0], 0) + begin : reinterpret_cast<float*>(scratch);
  frame.kernels->linear(matrix, frame.outputs, activations(frame, in), chunk.begin, chunk.end, bias(in, 0),
                        place_of_output_zero(slice, begin), stride);
  for (int row = 0; row < frame.outputs; ++row) {
    float* logits = slice + row * stride;
    Best& best = frame.best[static_cast<size_t>(index) * frame.outputs + row];
    frame.kernels->argmax(logits, n, &best.value, &best.token);
    best.token += begin;
    if (frame.want_logits && in.factor != 0.0f) frame.kernels->softcap(logits, in.factor, n, logits);
  }
}

void run_rows(const Frame& frame, const ProgramPhase& phase, const Chunk& chunk, uint8_t* scratch) {
  for (int row = chunk.row_begin; row < chunk.row_end; ++row) {
    const Place place = {frame, scratch, row, 0, 0};
    for (const Instruction* in : phase.instructions) run_row(place, *in, row);
  }
}

}  // namespace

void run_chunk(const Frame& frame, const ProgramPhase& phase, uint32_t index, int worker) {
  const Chunk& chunk = phase.chunks[index];
  uint8_t* scratch = frame.scratch + worker * frame.scratch_bytes;
  switch (phase.instructions[0]->op) {
    case Op::kLinear:
      return run_linear(frame, phase, chunk, scratch);
    case Op::kAttention:
      return run_attention(frame, phase, chunk, scratch);
    case Op::kConvolution:
    case Op::kDelta:
      return run_states(frame, phase, chunk, scratch);
    case Op::kExpertOrder:
    case Op::kExpertGather:
    case Op::kExpertLinear:
      return run_experts(frame, phase, chunk, scratch);
    case Op::kHead:
      return run_head(frame, phase, index, scratch);
    default:
      return run_rows(frame, phase, chunk, scratch);
  }
}

}  // namespace verispec
