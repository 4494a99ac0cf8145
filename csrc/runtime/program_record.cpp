// The recording half of Program: every operation checked against the buffers and weights it is given.
#include <cmath>
#include <utility>

#include "check.hpp"
#include "program.hpp"

namespace verispec {
namespace {

constexpr int kMaxRows = 1 << 16;
constexpr int64_t kMaxWidth = int64_t{1} << 30;

std::string label(const char* op, const char* what) { return std::string(op) + ": " + what; }

void require_number(const char* op, const char* what, float value) {
  require(std::isfinite(value),
          label(op, what) + ": expected a finite number, found " + std::to_string(value));
}

}  // namespace

Program::Program(std::shared_ptr<ThreadPool> pool, std::shared_ptr<Workspace> workspace,
                 const KernelTable& kernels, int rows, int outputs, bool want_logits)
    : pool_(std::move(pool)),
      workspace_(std::move(workspace)),
      kernels_(kernels),
      shape_{rows, outputs, pool_->threads()},
      want_logits_(want_logits) {
  require_range("program: rows", rows, 1, kMaxRows);
  require_range("program: outputs", outputs, 0, kMaxRows);
}

BufferId Program::new_buffer(Domain domain, int64_t width) {
  require_range("program: width of a buffer", width, 1, kMaxWidth);
  Buffer buffer;
  buffer.domain = domain;
  buffer.width = width;
  buffers_.push_back(buffer);
  return static_cast<BufferId>(buffers_.size()) - 1;
}

const Buffer& Program::checked(const char* op, const char* what, BufferId id) const {
  require(!finished_, label(op, "expected a program being recorded, found a finished one"));
  require_range(label(op, what) + " (buffer)", id, 0, static_cast<int64_t>(buffers_.size()) - 1);
  const Buffer& buffer = buffers_[id];
  require(!buffer.quantised, label(op, what) + ": expected a float32 buffer, found a quantised one");
  return buffer;
}

Instruction& Program::record(Op op, Domain domain, std::vector<BufferId> reads,
                             std::vector<BufferId> writes) {
  require(!finished_, "program: expected a program being recorded, found a finished one");
  Instruction in{};
  in.op = op;
  in.domain = domain;
  in.reads = std::move(reads);
  in.writes = std::move(writes);
  instructions_.push_back(std::move(in));
  return instructions_.back();
}

BufferId Program::input(int64_t width) {
  require(!finished_, "input: expected a program being recorded, found a finished one");
  const BufferId id = new_buffer(Domain::kPass, width);
  buffers_[id].kept = true;
  buffers_[id].input = true;
  inputs_.push_back(id);
  input_widths_.push_back(width);
  return id;
}

BufferId Program::embedding(std::shared_ptr<const Matrix> table, float scale) {
  require_number("embedding", "scale", scale);
  const BufferId out = new_buffer(Domain::kPass, table->packed.k);
  Instruction& in = record(Op::kEmbedding, Domain::kPass, {}, {out});
  in.factor = scale;
  tokens_bound_ = std::min(tokens_bound_, table->packed.n);
  in.weights = {std::move(table)};
  return out;
}

void Program::append_quantised(const char* op, BufferId x,
                               const std::vector<std::shared_ptr<const Matrix>>& weights,
                               std::vector<BufferId>& reads) {
  const Buffer buffer = checked(op, "x", x);
  bool quantised = false;
  for (const auto& matrix : weights) {
    require_equal(label(op, "inputs of a matrix"), buffer.width, matrix->packed.k);
    quantised = quantised || is_quantised(matrix->packed.type);
  }
  if (!quantised) return;
  const auto known = quantised_.find(x);
  if (known != quantised_.end()) return reads.push_back(known->second);
  const BufferId id = new_buffer(buffer.domain, buffer.width);
  buffers_[id].quantised = true;
  record(Op::kQuantise, buffer.domain, {x}, {id});
  quantised_[x] = id;
  reads.push_back(id);
}

std::vector<BufferId> Program::linear(BufferId x, std::vector<std::shared_ptr<const Matrix>> weights,
                                      std::vector<std::shared_ptr<const Vector>> biases) {
  require(!weights.empty(), "linear: expected at least one matrix, found none");
  if (biases.empty()) biases.resize(weights.size());
  require_equal("linear: number of biases", static_cast<int64_t>(weights.size()),
                static_cast<int64_t>(biases.size()));
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!biases[i]) continue;
    require_equal("linear: width of a bias", weights[i]->packed.n, biases[i]->size());
  }
  std::vector<BufferId> reads = {x};
  append_quantised("linear", x, weights, reads);
  const Domain domain = buffers_[x].domain;
  std::vector<BufferId> outs;
  for (const auto& matrix : weights) outs.push_back(new_buffer(domain, matrix->packed.n));
  Instruction& in = record(Op::kLinear, domain, std::move(reads), outs);
  in.weights = std::move(weights);
  in.biases = std::move(biases);
  return outs;
}

BufferId Program::rms_norm(BufferId x, std::shared_ptr<const Vector> weight, float epsilon, int groups) {
  const Buffer buffer = checked("rms_norm", "x", x);
  require(epsilon >= 0 && std::isfinite(epsilon),
          "rms_norm: epsilon: expected a number of at least 0, found " + std::to_string(epsilon));
  require_range("rms_norm: groups", groups, 1, buffer.width);
  require(buffer.width % groups == 0, "rms_norm: groups: expected a divisor of the width " +
                                          std::to_string(buffer.width) + ", found " + std::to_string(groups));
  if (weight) {
    require_equal("rms_norm: width of the weight", buffer.width / groups, weight->size());
  }
  const BufferId out = new_buffer(buffer.domain, buffer.width);
  Instruction& in = record(Op::kRmsNorm, buffer.domain, {x}, {out});
  in.vector = std::move(weight);
  in.factor = epsilon;
  in.count = groups;
  return out;
}

BufferId Program::rope(BufferId x, int heads, std::shared_ptr<const RopeTables> tables) {
  const Buffer buffer = checked("rope", "x", x);
  require(buffer.domain == Domain::kPass, "rope: x: expected rows of the pass, found output rows");
  require_range("rope: heads", heads, 1, buffer.width);
  require(buffer.width % heads == 0, "rope: heads: expected a divisor of the width " +
                                         std::to_string(buffer.width) + ", found " + std::to_string(heads));
  require_range("rope: rotated elements of a head", 2 * int64_t{tables->table.pairs}, 0,
                buffer.width / heads);
  if (buffer.kept) x = scale(x, 1.0f);  // the original is read after the pass
  forget(x);
  Instruction& in = record(Op::kRope, Domain::kPass, {x}, {x});
  in.count = heads;
  bound_positions(tables->positions);
  in.rope = std::move(tables);
  return x;
}

// What was derived from a buffer is no longer what it holds.
void Program::forget(BufferId x) {
  quantised_.erase(x);
  routed_.erase(x);
  for (auto at = gathered_.begin(); at != gathered_.end();)
    at = std::get<0>(at->first) == x ? gathered_.erase(at) : std::next(at);
}

BufferId Program::unary(Op op, const char* name, BufferId x, float factor) {
  const Buffer buffer = checked(name, "x", x);
  require_number(name, "factor", factor);
  const BufferId out = new_buffer(buffer.domain, buffer.width);
  record(op, buffer.domain, {x}, {out}).factor = factor;
  return out;
}

BufferId Program::binary(Op op, const char* name, BufferId a, BufferId b) {
  const Buffer first = checked(name, "first operand", a);
  const Buffer second = checked(name, "second operand", b);
  require_equal(label(name, "width of the second operand"), first.width, second.width);
  require(first.domain == second.domain,
          label(name, "expected two operands over the same rows, found pass rows and output rows"));
  const BufferId out = new_buffer(first.domain, first.width);
  record(op, first.domain, {a, b}, {out});
  return out;
}

BufferId Program::softcap(BufferId x, float cap) {
  require(cap > 0, "softcap: cap: expected a positive number, found " + std::to_string(cap));
  return unary(Op::kSoftcap, "softcap", x, cap);
}

BufferId Program::select_outputs(BufferId x) {
  const Buffer buffer = checked("select_outputs", "x", x);
  require(shape_.outputs > 0, "select_outputs: expected a program with outputs, found one with none");
  require(buffer.domain == Domain::kPass, "select_outputs: x: expected rows of the pass, found output rows");
  const BufferId out = new_buffer(Domain::kOutputs, buffer.width);
  record(Op::kSelectOutputs, Domain::kOutputs, {x}, {out});
  return out;
}

void Program::tap(BufferId x, int name) {
  checked("tap", "x", x);
  require(taps_.count(name) == 0, "tap: expected a number not yet used, found " + std::to_string(name));
  if (buffers_[x].input) x = scale(x, 1.0f);  // the caller may drop an input after the pass
  buffers_[x].kept = true;
  taps_[name] = x;
}

}  // namespace verispec
