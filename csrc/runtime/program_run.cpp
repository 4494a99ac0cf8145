// The running half of Program: planning once, then checking, binding and evaluating a pass.
#include <algorithm>
#include <chrono>
#include <shared_mutex>
#include <stdexcept>

#include "check.hpp"
#include "program.hpp"

namespace verispec {
namespace {

constexpr size_t kAlignment = 4096;  // no cache line or page is shared by two workers' scratch

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

void check_all(const char* what, const int32_t* values, int count, int64_t bound, int64_t least = 0) {
  for (int i = 0; i < count; ++i) {
    if (values[i] >= least && values[i] < bound) continue;
    require_range(std::string("run: ") + what + " of row " + std::to_string(i), values[i], least, bound - 1);
  }
}

const char* op_name(Op op) {
  static const char* const names[] = {
      "embedding",   "select_outputs", "rms_norm",     "rope",          "store_kv",      "split",
      "concat",      "route",          "expert_sum",   "add",           "scale",         "softcap",
      "swiglu",      "geglu",          "sigmoid_gate", "quantise",      "linear",        "attention",
      "convolution", "delta_rule",     "expert_order", "expert_gather", "expert_linear", "head"};
  return names[static_cast<int>(op)];
}

// Holds the workspace for one run.
class Hold {
 public:
  explicit Hold(Workspace& workspace) : workspace_(workspace) {
    if (!workspace_.try_acquire())
      throw std::runtime_error("run: another program of this workspace is running");
  }
  ~Hold() { workspace_.release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  Workspace& workspace_;
};

}  // namespace

void Program::finish() {
  require(!finished_, "finish: expected a program being recorded, found a finished one");
  phases_ = plan_phases(instructions_, buffers_, shape_);
  size_t head_chunks = 0;
  for (ProgramPhase& phase : phases_) {
    plan_chunks(phase, shape_);
    if (phase.instructions[0]->op == Op::kHead) head_chunks = phase.chunks.size();
  }
  const MemoryPlan plan = place_buffers(phases_, buffers_, shape_);
  scratch_offset_ = aligned(plan.shared);
  frame_.scratch_bytes = aligned(plan.scratch);
  workspace_bytes_ = scratch_offset_ + frame_.scratch_bytes * shape_.threads + kAlignment;
  workspace_->reserve(workspace_bytes_);
  best_.resize(head_chunks * shape_.outputs);
  argmax_.resize(has_head_ ? shape_.outputs : 0);

  frame_.kernels = &kernels_;
  frame_.buffers = buffers_.data();
  frame_.rows = shape_.rows;
  frame_.outputs = shape_.outputs;
  frame_.want_logits = want_logits_;
  frame_.best = best_.data();
  for (const ProgramPhase& phase : phases_) contexts_.push_back({&frame_, &phase});
  const auto run = [](const void* context, uint32_t chunk, int worker) {
    const PoolContext& bound = *static_cast<const PoolContext*>(context);
    run_chunk(*bound.frame, *bound.phase, chunk, worker);
  };
  for (const PoolContext& context : contexts_) {
    pool_phases_.push_back({run, &context, static_cast<uint32_t>(context.phase->chunks.size())});
  }
  finished_ = true;
}

void Program::check_inputs(const PassInputs& inputs) const {
  require(finished_, "run: expected a finished program, found one being recorded");
  require(!cache_ || !cache_->closed(), "run: expected an open KV cache, found a closed one");
  require(!states_ || !states_->closed(), "run: expected an open state cache, found a closed one");
  check_all("token", inputs.tokens, shape_.rows, tokens_bound_);
  check_all("position", inputs.positions, shape_.rows, positions_bound_, positions_least_);
  check_all("slot", inputs.slots, shape_.rows, cache_ ? cache_->slots() : INT32_MAX);
  check_all("output row", inputs.output_rows, shape_.outputs, shape_.rows);
  if (cache_) check_distinct(inputs);
}

// Two rows at one place of the cache would overwrite each other.
void Program::check_distinct(const PassInputs& inputs) const {
  std::vector<int64_t> places(shape_.rows);
  for (int i = 0; i < shape_.rows; ++i) places[i] = int64_t{inputs.slots[i]} << 32 | inputs.positions[i];
  std::sort(places.begin(), places.end());
  const auto twin = std::adjacent_find(places.begin(), places.end());
  require(twin == places.end(), "run: expected rows at distinct positions of a slot, found two at position " +
                                    std::to_string(twin == places.end() ? 0 : *twin & 0xffffffff));
}

void Program::bind(const PassInputs& inputs) {
  results_ = workspace_->memory();
  frame_.base = results_->data();
  frame_.tokens = inputs.tokens;
  frame_.positions = inputs.positions;
  frame_.block_ends = block_ends_.data();
  frame_.slots = inputs.slots;
  frame_.output_rows = inputs.output_rows;
  frame_.scratch = frame_.base + scratch_offset_;
  frame_.state_from = inputs.state_from;
  frame_.state_to = inputs.state_to;
  frame_.state_kept = state_kept_.data();
  frame_.chains = &chains_;
  for (size_t i = 0; i < inputs_.size(); ++i) buffers_[inputs_[i]].given = inputs.buffers[i];
}

// The pass writes its workspace while it reads its inputs.
void Program::check_buffers(const PassInputs& inputs) const {
  const auto begin = reinterpret_cast<uintptr_t>(workspace_->memory()->data());
  const uintptr_t end = begin + workspace_->memory()->size();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto at = reinterpret_cast<uintptr_t>(inputs.buffers[i]);
    const std::string where = "run: input " + std::to_string(i);
    require(at % alignof(float) == 0, where + ": expected aligned float32 values, found unaligned ones");
    const uintptr_t bytes = sizeof(float) * shape_.rows * input_widths_[i];
    require(at + bytes <= begin || at >= end,
            where + ": expected values outside the workspace of the pass, found them in it");
  }
}

template <typename Evaluate>
void Program::run_with(const PassInputs& inputs, Evaluate evaluate) {
  const Hold hold(*workspace_);
  std::shared_lock<std::shared_mutex> cache_in_use;
  if (cache_) cache_in_use = std::shared_lock<std::shared_mutex>(cache_->in_use());
  std::shared_lock<std::shared_mutex> states_in_use;
  if (states_) states_in_use = std::shared_lock<std::shared_mutex>(states_->in_use());
  check_inputs(inputs);
  check_buffers(inputs);
  find_chains(inputs);
  find_block_ends(inputs);
  bind(inputs);
  evaluate();
  reduce_argmax();
  has_run_ = true;
}

void Program::run(const PassInputs& inputs) {
  run_with(inputs, [this] { pool_->run(pool_phases_.data(), pool_phases_.size()); });
}

std::vector<double> Program::time_phases(const PassInputs& inputs) {
  std::vector<double> seconds;
  run_with(inputs, [this, &seconds] {
    for (const ThreadPool::Phase& phase : pool_phases_) {
      const auto begin = std::chrono::steady_clock::now();
      pool_->run(&phase, 1);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  });
  return seconds;
}

// Chunks are in order of tokens, so the first of equal values has the lowest id.
void Program::reduce_argmax() {
  if (!has_head_) return;
  const size_t chunks = best_.size() / shape_.outputs;
  for (int row = 0; row < shape_.outputs; ++row) {
    Best best = best_[row];
    for (size_t chunk = 1; chunk < chunks; ++chunk) {
      const Best& other = best_[chunk * shape_.outputs + row];
      if (other.value > best.value) best = other;
    }
    argmax_[row] = static_cast<int32_t>(best.token);
  }
}

Program::View Program::view(BufferId id) const {
  require(has_run_, "program: expected a program that has run, found one that has not");
  const int rows = frame_.rows_of(buffers_[id].domain);
  return {results_, frame_.row(id, 0), rows, buffers_[id].width};
}

Program::View Program::logits() const {
  require(logits_ >= 0, "logits: expected a program recorded with logits, found one without");
  return view(logits_);
}

Program::View Program::hidden(int name) const {
  const auto tap = taps_.find(name);
  require(tap != taps_.end(), "hidden: expected a recorded tap, found " + std::to_string(name));
  return view(tap->second);
}

std::vector<std::string> Program::describe() const {
  std::vector<std::string> lines;
  for (const ProgramPhase& phase : phases_) {
    std::string line;
    for (const Instruction* in : phase.instructions)
      line += (line.empty() ? "" : "+") + std::string(op_name(in->op));
    lines.push_back(line + " in " + std::to_string(phase.chunks.size()));
  }
  return lines;
}

}  // namespace verispec
