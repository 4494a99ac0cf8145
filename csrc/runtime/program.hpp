// A pass recorded once for a number of rows and outputs, and run any number of times.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "execute.hpp"
#include "instruction.hpp"
#include "phase_plan.hpp"
#include "state_cache.hpp"
#include "thread_pool.hpp"
#include "workspace.hpp"

namespace verispec {

// What a run is given: one token, position and slot per row, one row index per output, the contents of the
// input buffers in the order they were recorded, which are read where they lie, and for a program with
// recurrent layers the place of each row's state before and after it (null otherwise).
struct PassInputs {
  const int32_t* tokens;
  const int32_t* positions;
  const int32_t* slots;
  const int32_t* output_rows;
  std::vector<const float*> buffers;
  const int32_t* state_from;
  const int32_t* state_to;
};

// Every recording function checks what it is given and throws std::invalid_argument that names the operation,
// what it expected and what it found; so does run(). A program that failed to record is unusable.
class Program {
 public:
  // `rows` >= 1; `outputs` >= 0, 0 for a program without a head.
  Program(std::shared_ptr<ThreadPool> pool, std::shared_ptr<Workspace> workspace, const KernelTable& kernels,
          int rows, int outputs, bool want_logits);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // A buffer [rows][width] whose contents every run is given.
  BufferId input(int64_t width);
  BufferId embedding(std::shared_ptr<const Matrix> table, float scale);
  std::vector<BufferId> linear(BufferId x, std::vector<std::shared_ptr<const Matrix>> weights,
                               std::vector<std::shared_ptr<const Vector>> biases);
  BufferId rms_norm(BufferId x, std::shared_ptr<const Vector> weight, float epsilon, int groups);
  BufferId rope(BufferId x, int heads, std::shared_ptr<const RopeTables> tables);
  // `block`: the rows of one sequence see all of each other, and whatever the cache holds before them.
  BufferId attention(BufferId q, BufferId k, BufferId v, std::shared_ptr<KvCache> cache, int layer,
                     const AttentionShape& shape, bool block = false);
  // Puts keys and values into the cache, for later passes to attend to.
  void store_kv(BufferId k, BufferId v, std::shared_ptr<KvCache> cache, int layer);
  BufferId convolution(BufferId x, std::shared_ptr<const Matrix> taps, std::shared_ptr<StateCache> states,
                       int layer);
  BufferId delta_rule(BufferId qkv, BufferId beta, BufferId alpha, std::shared_ptr<const Vector> decay,
                      std::shared_ptr<const Vector> dt_bias, std::shared_ptr<StateCache> states, int layer,
                      DeltaShape shape);
  BufferId sigmoid_gate(BufferId x, BufferId gate);
  std::vector<BufferId> split(BufferId x, const std::vector<int64_t>& widths, int groups);
  BufferId concat(const std::vector<BufferId>& parts);
  // Ids and shares. Only such ids choose experts.
  std::pair<BufferId, BufferId> route(BufferId logits, int used, bool normalise);
  BufferId expert_linear(BufferId x, BufferId ids, std::shared_ptr<const Experts> experts);
  BufferId expert_sum(BufferId x, BufferId shares);
  BufferId add(BufferId a, BufferId b) { return binary(Op::kAdd, "add", a, b); }
  BufferId swiglu(BufferId gate, BufferId up) { return binary(Op::kSwiGlu, "swiglu", gate, up); }
  BufferId geglu(BufferId gate, BufferId up) { return binary(Op::kGeGlu, "geglu", gate, up); }
  BufferId scale(BufferId x, float factor) { return unary(Op::kScale, "scale", x, factor); }
  BufferId softcap(BufferId x, float cap);
  BufferId select_outputs(BufferId x);
  // Keeps x for reading after a run, under a number of the caller's choice.
  void tap(BufferId x, int name);
  // Ends the pass. The greatest logit is found before the soft-cap, which only logits go through.
  void output_head(BufferId x, std::shared_ptr<const Matrix> weight, std::shared_ptr<const Vector> bias,
                   float softcap);

  // Plans phases and memory. Nothing can be recorded afterwards.
  void finish();

  // Checks the inputs and evaluates the pass. Throws std::runtime_error when another program of the workspace
  // is running.
  void run(const PassInputs& inputs);

  // As run(), one phase at a time: the seconds each took, in the order of describe(). Waking the threads for
  // each phase makes the sum a little more than what run() takes.
  std::vector<double> time_phases(const PassInputs& inputs);

  // Results of the last run. A view is overwritten by the next run of any program of the workspace.
  struct View {
    std::shared_ptr<const Memory> memory;
    const float* data;
    int64_t rows;
    int64_t width;
  };
  const std::vector<int32_t>& argmax() const { return argmax_; }
  View logits() const;
  View hidden(int name) const;

  int rows() const { return shape_.rows; }
  int outputs() const { return shape_.outputs; }
  const std::vector<int64_t>& input_widths() const { return input_widths_; }
  const KernelTable& kernels() const { return kernels_; }
  size_t phase_count() const { return phases_.size(); }
  size_t workspace_bytes() const { return workspace_bytes_; }
  // One line a phase: its operations and number of chunks.
  std::vector<std::string> describe() const;

 private:
  BufferId new_buffer(Domain domain, int64_t width);
  const Buffer& checked(const char* op, const char* what, BufferId id) const;
  Instruction& record(Op op, Domain domain, std::vector<BufferId> reads, std::vector<BufferId> writes);
  BufferId unary(Op op, const char* name, BufferId x, float factor);
  BufferId binary(Op op, const char* name, BufferId a, BufferId b);
  void append_quantised(const char* op, BufferId x, const std::vector<std::shared_ptr<const Matrix>>& weights,
                        std::vector<BufferId>& reads);
  void forget(BufferId x);
  BufferId expert_order(BufferId ids);
  BufferId expert_gather(BufferId x, BufferId ids, int64_t inputs, bool quantised);
  void bound_positions(int64_t positions);
  void use_states(const char* op, std::shared_ptr<StateCache> states);
  void find_chains(const PassInputs& inputs);
  void find_block_ends(const PassInputs& inputs);
  void check_places(const PassInputs& inputs);
  void check_inputs(const PassInputs& inputs) const;
  void check_distinct(const PassInputs& inputs) const;
  void check_buffers(const PassInputs& inputs) const;
  void bind(const PassInputs& inputs);
  template <typename Evaluate>
  void run_with(const PassInputs& inputs, Evaluate evaluate);
  void reduce_argmax();
  View view(BufferId id) const;

  std::shared_ptr<ThreadPool> pool_;
  std::shared_ptr<Workspace> workspace_;
  const KernelTable& kernels_;
  PassShape shape_;
  bool want_logits_;
  bool finished_ = false;
  bool has_run_ = false;
  bool has_head_ = false;
  bool has_blocks_ = false;

  std::vector<Buffer> buffers_;
  std::vector<Instruction> instructions_;
  std::vector<BufferId> inputs_;
  std::vector<int64_t> input_widths_;
  std::map<int, BufferId> taps_;
  std::map<BufferId, BufferId> quantised_;      // float buffers and their quantised forms
  std::map<BufferId, int> routed_;              // ids and the number of experts
  std::map<BufferId, BufferId> expert_orders_;  // of ids
  std::map<std::tuple<BufferId, BufferId, bool>, BufferId> gathered_;  // of x and ids, quantised or not
  BufferId logits_ = -1;

  // Bounds of the run-time inputs, from what was recorded.
  int64_t tokens_bound_ = INT32_MAX;
  int64_t positions_bound_ = INT32_MAX;
  int64_t positions_least_ = 0;
  std::shared_ptr<KvCache> cache_;
  std::shared_ptr<StateCache> states_;

  // Made by finish().
  std::vector<ProgramPhase> phases_;
  struct PoolContext {
    const Frame* frame;
    const ProgramPhase* phase;
  };
  std::vector<PoolContext> contexts_;
  std::vector<ThreadPool::Phase> pool_phases_;
  size_t workspace_bytes_ = 0;
  size_t scratch_offset_ = 0;
  Frame frame_;
  std::shared_ptr<const Memory> results_;  // the workspace memory of the last run
  std::vector<Chain> chains_;              // of the run, when there are states
  std::vector<uint8_t> state_kept_;
  std::vector<int32_t> block_ends_;  // of the run, when there is attention within blocks
  std::vector<Best> best_;
  std::vector<int32_t> argmax_;
};

}  // namespace verispec
