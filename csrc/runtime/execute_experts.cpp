// A mixture of experts: the entries of a pass (a row and one of its experts) are sorted by expert, so that an
// expert's weights are read once for all of its rows.
#include <algorithm>
#include <cstring>

#include "execute.hpp"

namespace verispec {
namespace {

// What kExpertOrder leaves for the others: entries in order of expert, an entry being row * used + slot, and
// where each expert's begin.
struct ExpertOrder {
  int32_t* entries;
  int32_t* begin;  // [experts + 1]

  ExpertOrder(const Frame& frame, BufferId id, int count)
      : entries(reinterpret_cast<int32_t*>(frame.bytes(id))), begin(entries + count) {}
  int rows_of(int expert) const { return begin[expert + 1] - begin[expert]; }
};

int entry_count(const Frame& frame, const Instruction& in) { return frame.rows_of(in.domain) * in.count; }

// The expert of an entry, by the ids that route gave.
int expert_of(const Frame& frame, BufferId ids, int entry, int experts) {
  const float id = frame.row(ids, 0)[entry];
  return id >= 0.0f && id < static_cast<float>(experts) ? static_cast<int>(id) : 0;
}

PackedMatrix matrix_of(const Experts& experts, int expert) {
  PackedMatrix matrix = experts.first;
  matrix.data += static_cast<size_t>(expert) * matrix.bytes;
  return matrix;
}

}  // namespace

void run_expert_order(const Frame& frame, const Instruction& in) {
  const int count = entry_count(frame, in);
  const ExpertOrder order(frame, in.writes[0], count);
  const int experts = in.experts_count;
  std::fill(order.begin, order.begin + experts + 1, 0);
  for (int entry = 0; entry < count; ++entry) ++order.begin[expert_of(frame, in.reads[0], entry, experts)];
  int32_t end = 0;
  for (int expert = 0; expert <= experts; ++expert) order.begin[expert] = end += order.begin[expert];
  // Filled from the back, each expert's end becomes its beginning and entries keep their order.
  for (int entry = count - 1; entry >= 0; --entry)
    order.entries[--order.begin[expert_of(frame, in.reads[0], entry, experts)]] = entry;
}

// Inputs of entries [begin, end), each to its place among the rows of its expert.
void run_expert_gather(const Frame& frame, const Instruction& in, int begin, int end) {
  const ExpertOrder order(frame, in.reads[1], entry_count(frame, in));
  const int64_t x_width = frame.buffers[in.reads[0]].width;
  const int64_t inputs = frame.buffers[in.writes[0]].width / in.count;
  for (int place = begin; place < end; ++place) {
    const int entry = order.entries[place];
    const int expert = expert_of(frame, in.reads[2], entry, in.experts_count);
    const float* x = frame.row(in.reads[0], entry / in.count);
    if (x_width != inputs) x += entry % in.count * inputs;  // the slot's own
    if (!frame.buffers[in.writes[0]].quantised) {
      std::memcpy(frame.row(in.writes[0], 0) + place * inputs, x,
                  static_cast<size_t>(inputs) * sizeof(float));
      continue;
    }
    uint8_t* rows = frame.bytes(in.writes[0]) + quantised_bytes(order.begin[expert], inputs);
    frame.kernels->quantize_row(x, inputs, place - order.begin[expert], order.rows_of(expert), rows);
  }
}

// Output groups [begin, end) of every expert that has rows.
void run_expert_linear(const Frame& frame, const Instruction& in, int64_t begin, int64_t end,
                       uint8_t* scratch) {
  const ExpertOrder order(frame, in.reads[1], entry_count(frame, in));
  const int64_t outputs = in.experts->first.n, inputs = in.experts->first.k;
  const int64_t column = begin * kGroup;
  const int64_t width = std::min(end * kGroup, outputs) - column;
  const bool quantised = frame.buffers[in.reads[0]].quantised;
  auto* results = reinterpret_cast<float*>(scratch);
  for (int expert = 0; expert < in.experts->count; ++expert) {
    const PackedMatrix matrix = matrix_of(*in.experts, expert);
    for (int row = 0; row < order.rows_of(expert); row += kExpertRows) {
      const int first = order.begin[expert] + row;
      const int rows = std::min(order.rows_of(expert) - row, kExpertRows);
      const Activations x = {quantised ? nullptr : frame.row(in.reads[0], 0) + first * inputs,
                             quantised ? frame.bytes(in.reads[0]) + quantised_bytes(first, inputs) : nullptr};
      float* out = reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(results) -
                                            static_cast<uintptr_t>(column) * sizeof(float));
      frame.kernels->linear(matrix, rows, x, begin, end, nullptr, out, width);
      for (int r = 0; r < rows; ++r) {
        float* to = frame.row(in.writes[0], 0) + order.entries[first + r] * outputs + column;
        std::memcpy(to, results + r * width, static_cast<size_t>(width) * sizeof(float));
      }
    }
  }
}

}  // namespace verispec
