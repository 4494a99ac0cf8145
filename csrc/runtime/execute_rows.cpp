// The instructions that work row by row.
#include <algorithm>
#include <cstring>

#include "execute.hpp"

namespace verispec {
namespace {

// Quantises columns of one row to where quantize_row would put them: blocks are outermost in a tile of rows,
// so a range of blocks of a tile is the buffer of a narrower matrix.
void quantise(const Place& place, const Instruction& in, int row, int64_t begin, int64_t end) {
  const Frame& frame = place.frame;
  const int64_t width = frame.buffers[in.reads[0]].width;
  const int tile = row / kMaxTileRows * kMaxTileRows;
  const int tile_rows = std::min(frame.rows_of(in.domain) - tile, kMaxTileRows);
  uint8_t* out = frame.bytes(in.writes[0]) + quantised_bytes(tile, width) + quantised_bytes(tile_rows, begin);
  frame.kernels->quantize_row(place.at(in.reads[0], row, begin), end - begin, row - tile, tile_rows, out);
}

// Of whole groups.
void rms_norm(const Place& place, const Instruction& in, int row, int64_t begin, int64_t end) {
  const int64_t width = place.frame.buffers[in.reads[0]].width / in.count;
  const float* weight = in.vector ? in.vector->data() : nullptr;
  for (int64_t column = begin; column < end; column += width) {
    place.frame.kernels->rms_norm(place.at(in.reads[0], row, column), weight, in.factor, width,
                                  place.at(in.writes[0], row, column));
  }
}

void select_row(const Place& place, const Instruction& in, int row) {
  const size_t bytes = static_cast<size_t>(place.frame.buffers[in.reads[0]].width) * sizeof(float);
  std::memcpy(place.at(in.writes[0], row, 0), place.frame.row(in.reads[0], place.frame.output_rows[row]),
              bytes);
}

void rope(const Place& place, const Instruction& in, int row) {
  const int head_dim = static_cast<int>(place.frame.buffers[in.writes[0]].width / in.count);
  place.frame.kernels->rope(place.at(in.writes[0], row, 0), in.count, head_dim, in.rope->table,
                            place.frame.positions[row]);
}

// Equal parts of a row times the sigmoid of one gate each; a gate as wide as the row has a part a column.
void sigmoid_gate(const Place& place, const Instruction& in, int row, int64_t begin, int64_t end) {
  const KernelTable& kernels = *place.frame.kernels;
  const int64_t width = place.frame.buffers[in.reads[0]].width;
  const int64_t gates = place.frame.buffers[in.reads[1]].width;
  if (gates == width)
    return kernels.sigmoid_gate(place.at(in.reads[0], row, begin), place.at(in.reads[1], row, begin),
                                end - begin, place.at(in.writes[0], row, begin));
  const int64_t part = width / gates;
  const float* gate = place.at(in.reads[1], row, 0);
  for (int64_t column = begin; column < end;) {
    const int64_t next = std::min((column / part + 1) * part, end);
    kernels.sigmoid_scale(place.at(in.reads[0], row, column), gate[column / part], next - column,
                          place.at(in.writes[0], row, column));
    column = next;
  }
}

void copy(const float* from, int64_t count, float* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

void split(const Place& place, const Instruction& in, int row) {
  const float* from = place.at(in.reads[0], row, 0);
  for (int group = 0; group < in.count; ++group) {
    for (BufferId piece : in.writes) {
      const int64_t width = place.frame.buffers[piece].width / in.count;
      copy(from, width, place.at(piece, row, group * width));
      from += width;
    }
  }
}

void concat(const Place& place, const Instruction& in, int row) {
  int64_t column = 0;
  for (BufferId part : in.reads) {
    const int64_t width = place.frame.buffers[part].width;
    copy(place.at(part, row, 0), width, place.at(in.writes[0], row, column));
    column += width;
  }
}

}  // namespace

void run_columns(const Place& place, const Instruction& in, int row, int64_t begin, int64_t end) {
  if (in.op == Op::kQuantise) return quantise(place, in, row, begin, end);
  if (in.op == Op::kRmsNorm) return rms_norm(place, in, row, begin, end);
  if (in.op == Op::kSigmoidGate) return sigmoid_gate(place, in, row, begin, end);
  const KernelTable& kernels = *place.frame.kernels;
  const float* a = place.at(in.reads[0], row, begin);
  const float* b = in.reads.size() > 1 ? place.at(in.reads[1], row, begin) : nullptr;
  float* out = place.at(in.writes[0], row, begin);
  switch (in.op) {
    case Op::kAdd:
      return kernels.add(a, b, end - begin, out);
    case Op::kScale:
      return kernels.scale(a, in.factor, end - begin, out);
    case Op::kSoftcap:
      return kernels.softcap(a, in.factor, end - begin, out);
    case Op::kSwiGlu:
      return kernels.swiglu(a, b, end - begin, out);
    default:
      return kernels.geglu(a, b, end - begin, out);
  }
}

void run_row(const Place& place, const Instruction& in, int row) {
  const Frame& frame = place.frame;
  switch (in.op) {
    case Op::kEmbedding:
      return frame.kernels->embedding_row(in.weights[0]->packed, frame.tokens[row], in.factor,
                                          place.at(in.writes[0], row, 0));
    case Op::kSelectOutputs:
      return select_row(place, in, row);
    case Op::kRope:
      return rope(place, in, row);
    case Op::kSplit:
      return split(place, in, row);
    case Op::kConcat:
      return concat(place, in, row);
    case Op::kRoute:
      return frame.kernels->route(place.at(in.reads[0], row, 0), frame.buffers[in.reads[0]].width, in.count,
                                  in.factor != 0.0f, place.at(in.writes[0], row, 0),
                                  place.at(in.writes[1], row, 0));
    case Op::kExpertSum:
      return frame.kernels->weighted_sum(place.at(in.reads[0], row, 0), place.at(in.reads[1], row, 0),
                                         in.count, frame.buffers[in.writes[0]].width,
                                         place.at(in.writes[0], row, 0));
    case Op::kStoreKv:
      return frame.kernels->store_kv(in.cache, frame.slots[row], frame.positions[row],
                                     place.at(in.reads[0], row, 0), place.at(in.reads[1], row, 0));
    default:
      return run_columns(place, in, row, 0, frame.buffers[in.writes[0]].width);
  }
}

}  // namespace verispec
