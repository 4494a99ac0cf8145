// Recording attention and the output head.
#include <algorithm>
#include <cmath>
#include <utility>

#include "check.hpp"
#include "program.hpp"

namespace verispec {
namespace {

void check_cache_rows(const KvCache& cache, int layer, int window, int rows) {
  const int64_t kept = cache.kept(layer);
  if (kept >= cache.positions()) return;
  require(window > 0, "attention: window: expected a positive one on a layer that keeps " +
                          std::to_string(kept) + " of " + std::to_string(cache.positions()) +
                          " positions, found 0");
  // The rows of a pass, kept or rejected later, must not displace a key that the first of them sees.
  const int64_t needed = int64_t{window} + rows - 1;
  require(kept >= needed, "attention: kept positions of layer " + std::to_string(layer) +
                              ": expected at least " + std::to_string(needed) + " for window " +
                              std::to_string(window) + " and " + std::to_string(rows) + " rows, found " +
                              std::to_string(kept));
}

void require_kept(const KvLayer& layer) {
  require(layer.blocks > 0,
          "attention: expected a layer that the KV cache keeps, found one that it does not");
}

void check_shape(const KvLayer& layer, const AttentionShape& shape, int64_t positions) {
  require_kept(layer);
  require_range("attention: first position", shape.first, 0, positions - 1);
  require_range("attention: head_dim", layer.head_dim, 1, kMaxHeadDim);
  require_range("attention: heads", shape.heads, 1, 1 << 16);
  require(shape.heads % layer.kv_heads == 0, "attention: heads: expected a multiple of " +
                                                 std::to_string(layer.kv_heads) + " kv heads, found " +
                                                 std::to_string(shape.heads));
  require_range("attention: window", shape.window, 0, INT32_MAX);
  require(std::isfinite(shape.scale),
          "attention: scale: expected a finite number, found " + std::to_string(shape.scale));
  require(std::isfinite(shape.softcap) && shape.softcap >= 0,
          "attention: softcap: expected a number of at least 0, found " + std::to_string(shape.softcap));
}

}  // namespace

void Program::bound_positions(int64_t positions) { positions_bound_ = std::min(positions_bound_, positions); }

// Records the storing of keys and values of the pass's rows, and that they belong to `cache`.
void Program::store_kv(BufferId k, BufferId v, std::shared_ptr<KvCache> cache, int layer) {
  const Buffer keys = checked("attention", "k", k);
  const Buffer values = checked("attention", "v", v);
  require(keys.domain == Domain::kPass && values.domain == Domain::kPass,
          "attention: expected rows of the pass, found output rows");
  require(!cache_ || cache_ == cache,
          "attention: expected one KV cache for the whole program, found a second");
  const KvLayer& kv = cache->layer(layer);
  require_kept(kv);
  require_equal("attention: width of k", int64_t{kv.kv_heads} * kv.head_dim, keys.width);
  require_equal("attention: width of v", int64_t{kv.kv_heads} * kv.head_dim, values.width);
  record(Op::kStoreKv, Domain::kPass, {k, v}, {}).cache = kv;
  bound_positions(cache->positions());
  cache_ = std::move(cache);
}

BufferId Program::attention(BufferId q, BufferId k, BufferId v, std::shared_ptr<KvCache> cache, int layer,
                            const AttentionShape& shape, bool block) {
  const Buffer queries = checked("attention", "q", q);
  require(queries.domain == Domain::kPass, "attention: expected rows of the pass, found output rows");
  const KvLayer& kv = cache->layer(layer);
  check_shape(kv, shape, cache->positions());
  require(!block || shape.window == 0,
          "attention: window: expected none within blocks, found " + std::to_string(shape.window));
  require_equal("attention: width of q", int64_t{shape.heads} * kv.head_dim, queries.width);
  check_cache_rows(*cache, layer, shape.window, shape_.rows);

  store_kv(k, v, std::move(cache), layer);
  const BufferId out = new_buffer(Domain::kPass, queries.width);
  Instruction& in = record(Op::kAttention, Domain::kPass, {q}, {out});
  in.cache = kv;
  in.shape = shape;
  in.block = block;
  has_blocks_ = has_blocks_ || block;
  positions_least_ = std::max<int64_t>(positions_least_, shape.first);
  return out;
}

void Program::find_block_ends(const PassInputs& inputs) {
  if (!has_blocks_) return;
  std::vector<int32_t> ends(cache_->slots(), -1);
  for (int row = 0; row < shape_.rows; ++row) {
    int32_t& end = ends[inputs.slots[row]];
    end = std::max(end, inputs.positions[row]);
  }
  block_ends_.resize(shape_.rows);
  for (int row = 0; row < shape_.rows; ++row) block_ends_[row] = ends[inputs.slots[row]];
}

void Program::output_head(BufferId x, std::shared_ptr<const Matrix> weight,
                          std::shared_ptr<const Vector> bias, float softcap) {
  const Buffer buffer = checked("output_head", "x", x);
  require(buffer.domain == Domain::kOutputs, "output_head: x: expected output rows, found rows of the pass");
  require(!has_head_, "output_head: expected one head, found a second");
  require(std::isfinite(softcap) && softcap >= 0,
          "output_head: softcap: expected a number of at least 0, found " + std::to_string(softcap));
  require_range("output_head: outputs of the matrix", weight->packed.n, 1, INT32_MAX);
  if (bias) {
    require_equal("output_head: width of the bias", weight->packed.n, bias->size());
  }
  std::vector<BufferId> reads = {x};
  append_quantised("output_head", x, {weight}, reads);
  std::vector<BufferId> writes;
  if (want_logits_) {
    logits_ = new_buffer(Domain::kOutputs, weight->packed.n);
    buffers_[logits_].kept = true;
    writes.push_back(logits_);
  }
  Instruction& in = record(Op::kHead, Domain::kOutputs, std::move(reads), std::move(writes));
  in.weights = {std::move(weight)};
  in.biases = {std::move(bias)};
  in.factor = softcap;
  has_head_ = true;
}

}  // namespace verispec
