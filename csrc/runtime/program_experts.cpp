// Recording a mixture of experts.
#include <utility>

#include "check.hpp"
#include "program.hpp"

namespace verispec {

std::pair<BufferId, BufferId> Program::route(BufferId logits, int used, bool normalise) {
  const Buffer buffer = checked("route", "logits", logits);
  require_range("route: experts", buffer.width, 1, kMaxExperts);
  require_range("route: used experts", used, 1, std::min<int64_t>(buffer.width, kMaxUsedExperts));
  const BufferId ids = new_buffer(buffer.domain, used);
  const BufferId shares = new_buffer(buffer.domain, used);
  Instruction& in = record(Op::kRoute, buffer.domain, {logits}, {ids, shares});
  in.count = used;
  in.factor = normalise ? 1.0f : 0.0f;
  routed_[ids] = static_cast<int>(buffer.width);
  return {ids, shares};
}

// The order of a pass's entries, made once for all that use the same ids.
BufferId Program::expert_order(BufferId ids) {
  const auto known = expert_orders_.find(ids);
  if (known != expert_orders_.end()) return known->second;
  const Buffer buffer = buffers_[ids];
  const int experts = routed_.at(ids);
  const int rows = buffer.domain == Domain::kPass ? shape_.rows : shape_.outputs;
  // An int32 an entry and one an expert and one more, in whole rows.
  const BufferId order = new_buffer(buffer.domain, buffer.width + (experts + rows) / rows);
  Instruction& in = record(Op::kExpertOrder, buffer.domain, {ids}, {order});
  in.count = static_cast<int>(buffer.width);
  in.experts_count = experts;
  return expert_orders_[ids] = order;
}

// The inputs of all entries in that order, as experts of such a type read them.
BufferId Program::expert_gather(BufferId x, BufferId ids, int64_t inputs, bool quantised) {
  const BufferId order = expert_order(ids);
  const std::tuple<BufferId, BufferId, bool> key = {x, ids, quantised};
  const auto known = gathered_.find(key);
  if (known != gathered_.end()) return known->second;
  const Buffer buffer = buffers_[ids];
  const BufferId rows = new_buffer(buffer.domain, buffer.width * inputs);
  buffers_[rows].quantised = quantised;
  Instruction& in = record(Op::kExpertGather, buffer.domain, {x, order, ids}, {rows});
  in.count = static_cast<int>(buffer.width);
  in.experts_count = routed_.at(ids);
  return gathered_[key] = rows;
}

BufferId Program::expert_linear(BufferId x, BufferId ids, std::shared_ptr<const Experts> experts) {
  const Buffer values = checked("expert_linear", "x", x);
  const Buffer chosen = checked("expert_linear", "ids", ids);
  require(values.domain == chosen.domain,
          "expert_linear: expected x and ids over the same rows, found pass rows and output rows");
  const auto routed = routed_.find(ids);
  require(routed != routed_.end(), "expert_linear: ids: expected what route gave, found another buffer");
  require_equal("expert_linear: experts of the weight", routed->second, experts->count);
  const int64_t inputs = experts->first.k;
  require(values.width == inputs || values.width == inputs * chosen.width,
          "expert_linear: width of x: expected " + std::to_string(inputs) + " or " +
              std::to_string(inputs * chosen.width) + ", found " + std::to_string(values.width));
  const BufferId rows = expert_gather(x, ids, inputs, is_quantised(experts->first.type));
  const BufferId out = new_buffer(values.domain, chosen.width * experts->first.n);
  Instruction& in = record(Op::kExpertLinear, values.domain, {rows, expert_order(ids)}, {out});
  in.count = static_cast<int>(chosen.width);
  in.experts_count = experts->count;
  in.experts = std::move(experts);
  return out;
}

BufferId Program::expert_sum(BufferId x, BufferId shares) {
  const Buffer values = checked("expert_sum", "x", x);
  const Buffer weights = checked("expert_sum", "shares", shares);
  require(values.domain == weights.domain,
          "expert_sum: expected x and shares over the same rows, found pass rows and output rows");
  require(values.width % weights.width == 0, "expert_sum: width of x: expected a multiple of " +
                                                 std::to_string(weights.width) + " shares, found " +
                                                 std::to_string(values.width));
  const BufferId out = new_buffer(values.domain, values.width / weights.width);
  record(Op::kExpertSum, values.domain, {x, shares}, {out}).count = static_cast<int>(weights.width);
  return out;
}

}  // namespace verispec
