// Recurrent layers: recording them, and what a run says about the places of their states.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "check.hpp"
#include "program.hpp"

namespace verispec {
namespace {

constexpr int kMaxHeads = 4096;

void check_shape(const DeltaShape& shape) {
  require_range("delta_rule: key heads", shape.key_heads, 1, kMaxHeads);
  require_range("delta_rule: value heads", shape.value_heads, 1, kMaxHeads);
  require(shape.value_heads % shape.key_heads == 0,
          "delta_rule: value heads: expected a multiple of " + std::to_string(shape.key_heads) +
              " key heads, found " + std::to_string(shape.value_heads));
  require_range("delta_rule: key_dim", shape.key_dim, 1, kMaxKeyDim);
  require_range("delta_rule: value_dim", shape.value_dim, 1, 1 << 16);
  require(shape.epsilon >= 0 && std::isfinite(shape.epsilon),
          "delta_rule: epsilon: expected a number of at least 0, found " + std::to_string(shape.epsilon));
}

std::string of_row(const char* what, int row) {
  return std::string("run: ") + what + " of row " + std::to_string(row);
}

}  // namespace

void Program::use_states(const char* op, std::shared_ptr<StateCache> states) {
  require(!states_ || states_ == states,
          std::string(op) + ": expected one state cache for the whole program, found a second");
  states_ = std::move(states);
}

BufferId Program::convolution(BufferId x, std::shared_ptr<const Matrix> taps,
                              std::shared_ptr<StateCache> states, int layer) {
  const Buffer buffer = checked("convolution", "x", x);
  const PackedMatrix& packed = taps->packed;
  require(buffer.domain == Domain::kPass, "convolution: x: expected rows of the pass, found output rows");
  require_equal("convolution: channels of the weight", buffer.width, packed.n);
  require_range("convolution: taps of the weight", packed.k, 1, kMaxTaps);
  require(!is_quantised(packed.type), "convolution: weight: expected a float type, found a quantised one");
  require_equal("convolution: floats of state layer " + std::to_string(layer), (packed.k - 1) * packed.n,
                states->shape(layer).convolution);
  const BufferId out = new_buffer(Domain::kPass, buffer.width);
  Instruction& in = record(Op::kConvolution, Domain::kPass, {x}, {out});
  in.states = states->convolution(layer);
  in.weights = {std::move(taps)};
  use_states("convolution", std::move(states));
  return out;
}

BufferId Program::delta_rule(BufferId qkv, BufferId beta, BufferId alpha, std::shared_ptr<const Vector> decay,
                             std::shared_ptr<const Vector> dt_bias, std::shared_ptr<StateCache> states,
                             int layer, DeltaShape shape) {
  check_shape(shape);
  const std::pair<const char*, std::pair<BufferId, int64_t>> reads[] = {
      {"qkv", {qkv, delta_width(shape)}},
      {"beta", {beta, shape.value_heads}},
      {"alpha", {alpha, shape.value_heads}}};
  for (const auto& [name, read] : reads) {
    const Buffer& buffer = checked("delta_rule", name, read.first);
    require(buffer.domain == Domain::kPass,
            std::string("delta_rule: ") + name + ": expected rows of the pass, found output rows");
    require_equal(std::string("delta_rule: width of ") + name, read.second, buffer.width);
  }
  require_equal("delta_rule: width of decay", shape.value_heads, decay->size());
  require_equal("delta_rule: width of dt_bias", shape.value_heads, dt_bias->size());
  require_equal("delta_rule: floats of state layer " + std::to_string(layer),
                value_width(shape) * shape.key_dim, states->shape(layer).recurrent);
  const BufferId out = new_buffer(Domain::kPass, value_width(shape));
  Instruction& in = record(Op::kDelta, Domain::kPass, {qkv, beta, alpha}, {out});
  in.states = states->recurrent(layer);
  in.delta = shape;
  in.delta.decay = decay->data();
  in.delta.dt_bias = dt_bias->data();
  in.biases = {std::move(decay), std::move(dt_bias)};
  use_states("delta_rule", std::move(states));
  return out;
}

// Cuts the rows into chains. A chain is the rows of one sequence, side by side and in order.
void Program::find_chains(const PassInputs& inputs) {
  const bool given = inputs.state_from && inputs.state_to;
  require(states_ || (!inputs.state_from && !inputs.state_to),
          "run: expected no places of states for a program without recurrent layers, found some");
  if (!states_) return;
  require(given, "run: expected the places of states for a program with recurrent layers, found none");
  chains_.clear();
  std::vector<int32_t> slots;
  for (int row = 0; row < shape_.rows; ++row) {
    require_range(of_row("state_from", row), inputs.state_from[row], -1, states_->places() - 1);
    require_range(of_row("state_to", row), inputs.state_to[row], 0, states_->places() - 1);
    if (row == 0 || inputs.slots[row] != inputs.slots[row - 1]) {
      chains_.push_back({row, 1});
      slots.push_back(inputs.slots[row]);
      continue;
    }
    ++chains_.back().size;
    require_equal(of_row("position", row) + ", which follows another of its sequence",
                  int64_t{inputs.positions[row - 1]} + 1, inputs.positions[row]);
    require_equal(of_row("state_from", row) + ", which follows another of its sequence",
                  inputs.state_to[row - 1], inputs.state_from[row]);
  }
  std::sort(slots.begin(), slots.end());
  const auto twin = std::adjacent_find(slots.begin(), slots.end());
  require(twin == slots.end(), "run: expected the rows of a slot side by side, found those of slot " +
                                   std::to_string(twin == slots.end() ? 0 : *twin) + " apart");
  check_places(inputs);
}

// Chains run side by side: what one writes no other may write or read. Finds the rows whose state stays.
void Program::check_places(const PassInputs& inputs) {
  std::map<int32_t, std::pair<int, int>> written;  // place: chain, and the last of its rows that writes there
  for (int chain = 0; chain < static_cast<int>(chains_.size()); ++chain) {
    const Chain& rows = chains_[chain];
    for (int row = rows.begin; row < rows.begin + rows.size; ++row) {
      const auto [entry, fresh] = written.insert({inputs.state_to[row], {chain, row}});
      require(fresh || entry->second.first == chain,
              of_row("state_to", row) + ": expected a place no other sequence writes, found place " +
                  std::to_string(inputs.state_to[row]));
      entry->second.second = row;
    }
  }
  for (int chain = 0; chain < static_cast<int>(chains_.size()); ++chain) {
    const int row = chains_[chain].begin;
    const auto writer = written.find(inputs.state_from[row]);
    require(writer == written.end() || writer->second.first == chain,
            of_row("state_from", row) + ": expected a place no other sequence writes, found place " +
                std::to_string(inputs.state_from[row]));
  }
  state_kept_.assign(shape_.rows, 0);
  for (const auto& [place, writer] : written) state_kept_[writer.second] = 1;
}

}  // namespace verispec
