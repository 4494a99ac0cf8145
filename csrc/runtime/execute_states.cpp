// The instructions that carry a state from row to row, chain by chain.
#include <algorithm>

#include "execute.hpp"

namespace verispec {

void run_convolution(const Place& place, const Instruction& in, int64_t begin, int64_t end) {
  const Frame& frame = place.frame;
  for (const Chain& chain : *frame.chains) {
    frame.kernels->convolution(in.weights[0]->packed, in.states, frame.rows_of(chain), begin, end,
                               place.at(in.reads[0], chain.begin, begin), place.row_stride(in.reads[0]),
                               place.at(in.writes[0], chain.begin, begin), place.row_stride(in.writes[0]));
  }
}

void run_delta(const Place& place, const Instruction& in, int64_t begin, int64_t end) {
  const Frame& frame = place.frame;
  const int panels = head_panels(in.delta);
  for (int64_t head = begin / panels; head * panels < end; ++head) {
    const int first = static_cast<int>(std::max(begin - head * panels, int64_t{0}));
    const int last = static_cast<int>(std::min<int64_t>(end - head * panels, panels));
    for (const Chain& chain : *frame.chains) {
      const DeltaInputs inputs = {frame.row(in.reads[0], chain.begin), frame.row(in.reads[1], chain.begin),
                                  frame.row(in.reads[2], chain.begin)};
      frame.kernels->delta_rule(in.delta, in.states, frame.rows_of(chain), inputs, static_cast<int>(head),
                                first, last, place.at(in.writes[0], chain.begin, head * in.delta.value_dim),
                                place.row_stride(in.writes[0]));
    }
  }
}

}  // namespace verispec
