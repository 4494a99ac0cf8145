// Recording the operations that move or gate columns.
#include <utility>

#include "check.hpp"
#include "program.hpp"

namespace verispec {

BufferId Program::sigmoid_gate(BufferId x, BufferId gate) {
  const Buffer values = checked("sigmoid_gate", "x", x);
  const Buffer gates = checked("sigmoid_gate", "gate", gate);
  require(values.domain == gates.domain,
          "sigmoid_gate: expected two operands over the same rows, found pass rows and output rows");
  require(values.width % gates.width == 0, "sigmoid_gate: width of the gate: expected a divisor of " +
                                               std::to_string(values.width) + ", found " +
                                               std::to_string(gates.width));
  const BufferId out = new_buffer(values.domain, values.width);
  record(Op::kSigmoidGate, values.domain, {x, gate}, {out});
  return out;
}

std::vector<BufferId> Program::split(BufferId x, const std::vector<int64_t>& widths, int groups) {
  const Buffer buffer = checked("split", "x", x);
  require(!widths.empty(), "split: widths: expected at least one, found none");
  require_range("split: groups", groups, 1, buffer.width);
  int64_t part = 0;
  for (const int64_t width : widths) {
    require_range("split: a width", width, 1, buffer.width);
    part += width;
  }
  require_equal("split: width of x (the widths times " + std::to_string(groups) + " groups)", part * groups,
                buffer.width);
  std::vector<BufferId> pieces;
  for (const int64_t width : widths) pieces.push_back(new_buffer(buffer.domain, width * groups));
  record(Op::kSplit, buffer.domain, {x}, pieces).count = groups;
  return pieces;
}

BufferId Program::concat(const std::vector<BufferId>& parts) {
  require(!parts.empty(), "concat: parts: expected at least one, found none");
  const Domain domain = checked("concat", "first part", parts[0]).domain;
  int64_t width = 0;
  for (const BufferId part : parts) {
    const Buffer& buffer = checked("concat", "a part", part);
    require(buffer.domain == domain,
            "concat: expected parts over the same rows, found pass rows and output rows");
    width += buffer.width;
  }
  const BufferId out = new_buffer(domain, width);
  record(Op::kConcat, domain, parts, {out});
  return out;
}

}  // namespace verispec
