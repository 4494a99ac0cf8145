// What a program is made of: buffers, instructions that read and write them, and phases that run between
// barriers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../kernels/kernel_table.hpp"
#include "kv_cache.hpp"
#include "rope_tables.hpp"
#include "weights.hpp"

namespace verispec {

using BufferId = int;

// The rows a buffer has: all of the pass, or those whose output the caller wants.
enum class Domain { kPass, kOutputs };

// [rows][width] float32, or those rows quantised. It is alive from the first phase that uses it to the last,
// and two buffers share memory only when no phase uses both. A local one is alive in one phase, in which
// every chunk uses only what it has computed itself: it has a place in each worker's scratch, where its cache
// lines never travel between cores.
struct Buffer {
  Domain domain = Domain::kPass;
  int64_t width = 0;
  bool quantised = false;
  bool local = false;
  bool kept = false;             // read after the pass
  bool input = false;            // lies where the caller has it, and is only read
  const float* given = nullptr;  // there, during a run
  int first_phase = -1;
  int last_phase = -1;
  size_t bytes = 0;
  size_t offset = 0;
};

enum class Op {
  kEmbedding,      // writes[0] = row `token` of weights[0] * factor
  kSelectOutputs,  // writes[0] = the output rows of reads[0]
  kRmsNorm,        // writes[0] = rms_norm of `count` groups of reads[0]; vector is the weight; factor epsilon
  kRope,           // rotates reads[0] = writes[0] in place, `count` heads
  kStoreKv,        // reads k, v
  kSplit,          // writes[i] = piece i of each of `count` equal parts of reads[0]
  kConcat,         // writes[0] = the reads one after another
  kRoute,          // writes ids, shares = the `count` greatest of logits reads[0]; factor: normalise
  kExpertSum,      // writes[0] = the slots of reads[0] times shares reads[1]
  kAdd,            // element by element, as are all up to kQuantise
  kScale,
  kSoftcap,
  kSwiGlu,
  kGeGlu,
  kSigmoidGate,   // writes[0] = reads[0] * sigmoid(reads[1]), a column of reads[1] for equal parts of a row
  kQuantise,      // writes[0] (quantised) = reads[0]
  kLinear,        // writes[i] = reads[0] @ weights[i]; reads[1], if there, is reads[0] quantised
  kAttention,     // writes[0] = attention of queries reads[0]
  kConvolution,   // writes[0] = convolution of reads[0] with weights[0]
  kDelta,         // writes[0] = the delta rule over reads qkv, beta, alpha
  kExpertOrder,   // writes[0] = the order of the experts of ids reads[0], `count` a row
  kExpertGather,  // writes[0] (quantised or not) = rows of reads[0] in the order reads[1] of ids reads[2]
  kExpertLinear,  // writes[0] = gathered rows reads[0] by the experts, in the order reads[1]
  kHead,          // as kLinear with one matrix, ends the pass; writes logits when they are wanted
};

struct Instruction {
  Op op;
  Domain domain;
  std::vector<BufferId> reads;
  std::vector<BufferId> writes;
  std::vector<std::shared_ptr<const Matrix>> weights;
  std::vector<std::shared_ptr<const Vector>> biases;  // beside weights; null where there is none
  std::shared_ptr<const Vector> vector;
  std::shared_ptr<const RopeTables> rope;
  KvLayer cache = {};  // of the layer a kStoreKv or kAttention works on
  AttentionShape shape = {};
  StateLayer states = {};                  // of the layer a kConvolution or kDelta works on
  DeltaShape delta = {};                   // whose vectors are biases[0] and biases[1]
  std::shared_ptr<const Experts> experts;  // of a kExpertLinear
  int experts_count = 0;
  float factor = 0;
  int count = 0;
  bool block = false;  // of a kAttention: the rows of a sequence see all of each other
};

// Whether column j of the result depends on column j of the inputs alone (blocks of kBlock columns:
// kQuantise).
inline bool is_columnwise(Op op) { return op >= Op::kAdd && op <= Op::kQuantise; }
constexpr int kExpertRows = 64;  // rows of one expert evaluated at once

inline bool is_rowwise(Op op) { return op < Op::kLinear; }

// A share of a phase. kLinear and kHead: groups [begin, end) of matrix `part` (-1: of every matrix), all
// rows; kConvolution: groups of channels, all rows; kDelta: panels [begin, end) of all heads, all rows.
// kAttention: kv heads [begin, end), rows [row_begin, row_end). Row-wise phases: rows [row_begin,
// row_end).
struct Chunk {
  int row_begin;
  int row_end;
  int part;
  int64_t begin;
  int64_t end;
};

// The heads that a chunk of a kDelta works on, wholly or in part.
struct HeadRange {
  int64_t begin;
  int64_t end;
};
inline HeadRange heads_of(const DeltaShape& delta, const Chunk& chunk) {
  const int64_t panels = head_panels(delta);
  return {chunk.begin / panels, (chunk.end + panels - 1) / panels};
}

// Instructions without a barrier between them: row-wise ones, or a kLinear, kAttention or kHead with the
// column-wise ones that each chunk can do on its own columns. A kConvolution is column-wise over all rows at
// once, so it comes first among those.
struct ProgramPhase {
  std::vector<const Instruction*> instructions;
  std::vector<Chunk> chunks;
};

}  // namespace verispec
