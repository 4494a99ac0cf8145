// The agreement between the kernels (compiled once per instruction set) and the runtime that calls them.
// Every function computes rows independently: a row's result never depends on which rows stand beside it,
// on the thread that runs it, or on the instruction set (contracts C1 and C3).
#pragma once

#include <cstddef>
#include <cstdint>

namespace verispec {

enum class WeightType : int32_t { F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K };

constexpr int kGroup = 16;     // output rows interleaved in one packed group; also the canonical lane count
constexpr int kBlock = 32;     // columns that share one activation scale
constexpr int kKeyBlock = 16;  // keys in one KV-cache block
constexpr int kMaxTileRows = 16;  // rows evaluated per read of the weights
constexpr int kMaxHeadDim = 512;  // widest attention head the kernels have room for
constexpr int kMaxTaps = 8;       // longest convolution
constexpr int kMaxKeyDim = 256;   // longest key of a recurrent state
constexpr int kMaxExperts = 1024;
constexpr int kMaxUsedExperts = 64;  // by one row
constexpr int kStatePanel = 64;      // value columns of a recurrent state that lie together

// A weight matrix of n outputs and k inputs in the packed layout of its type (weights/pack.hpp).
struct PackedMatrix {
  WeightType type;
  int64_t n;  // outputs, as in the file; the packed data is padded to a multiple of kGroup
  int64_t k;  // inputs
  const uint8_t* data;
  size_t bytes;
};

// Activations of m rows, input of linear(). Quantised weights read `quantised`, float weights read `x`; the
// other may be null.
struct Activations {
  const float* x;            // [m][k]
  const uint8_t* quantised;  // quantised_bytes(m, k) bytes at 64-byte alignment, filled by quantize_row
};

// Bytes that one block of kBlock columns of one row takes quantised: 32 values and 5 numbers of 4 bytes.
// Tiles of kMaxTileRows rows follow each other; inside a tile blocks are outermost and rows next, so that a
// kernel reaches every row of a block at a constant distance (kernels/quantize.hpp has the exact places).
constexpr int kQuantisedBlockBytes = 52;
static constexpr size_t quantised_bytes(int m, int64_t k) {
  return static_cast<size_t>(m) * static_cast<size_t>(k / kBlock) * kQuantisedBlockBytes;
}

// One layer's keys and values of all sequence slots, f16.
// K: [slot][block][kv_head][head_dim][kKeyBlock]; V: [slot][block][kv_head][kKeyBlock][head_dim].
// Position p lives in block (p / kKeyBlock) % blocks of its slot, so a sliding window is a ring.
struct KvLayer {
  uint16_t* keys;
  uint16_t* values;
  int kv_heads;
  int head_dim;
  int blocks;  // blocks per slot
};

struct AttentionShape {
  int heads;
  int window;     // keys visible to a row, its own included; 0 = all
  float scale;    // applied to the query
  float softcap;  // 0 = none
  int first;      // positions below it hold nothing
};

// What one layer keeps of every sequence, at every place, f32: place p at data + p * stride. Place -1 holds
// zeros and is never written.
// Convolution: [kernel - 1][channels], the oldest input first. Recurrent: [value
// head][panel][key_dim][columns of the panel], where a panel is kStatePanel value columns, the last one of a
// head what is left.
struct StateLayer {
  float* data;
  int64_t stride;
  bool large;  // the caches could not hold all places anyway
};

// Rows of one sequence in order: the place each reads (-1: zeros) and the place it leaves its state at.
// from[i
// + 1] is to[i]; kept[i] says that no later row of the chain leaves its state at to[i].
struct ChainRows {
  int m;
  const int32_t* from;
  const int32_t* to;
  const uint8_t* kept;
};

struct DeltaShape {
  int key_heads;
  int value_heads;  // a multiple of key_heads
  int key_dim;
  int value_dim;
  bool
      grouped;  // value heads that share a key head lie together; otherwise head j has key head j % key_heads
  float epsilon;         // of the norms of queries and keys
  const float* decay;    // [value_heads], negative
  const float* dt_bias;  // [value_heads]
};

static constexpr int64_t key_width(const DeltaShape& shape) {
  return int64_t{shape.key_heads} * shape.key_dim;
}
static constexpr int64_t value_width(const DeltaShape& shape) {
  return int64_t{shape.value_heads} * shape.value_dim;
}
static constexpr int64_t delta_width(const DeltaShape& shape) {
  return 2 * key_width(shape) + value_width(shape);
}
static constexpr int head_panels(const DeltaShape& shape) {
  return (shape.value_dim + kStatePanel - 1) / kStatePanel;
}

// Of a chain's rows: queries, keys and values [m][delta_width]; [m][value_heads] each of the other two.
struct DeltaInputs {
  const float* qkv;
  const float* beta;
  const float* alpha;
};

struct NoiseKey;  // sampling/noise.hpp

struct RopeTable {
  const float* cos;  // [positions][pairs]
  const float* sin;
  int pairs;         // rotated pairs per head
  bool interleaved;  // (2i, 2i+1) when true, (i, i + pairs) otherwise
};

struct KernelTable {
  const char* name;

  // Quantises x[k], row `row` of m, to its places in `quantised` (quantised_bytes(m, k) bytes, shared by all
  // rows; different rows may be written by different threads). k must be a multiple of kBlock.
  void (*quantize_row)(const float* x, int64_t k, int row, int m, uint8_t* quantised);

  // out[i * ld + j] for rows i in [0, m) and outputs j of groups [group_begin, group_end); bias may be null.
  // Padding outputs (j >= n) are not written.
  void (*linear)(const PackedMatrix& w, int m, const Activations& in, int64_t group_begin, int64_t group_end,
                 const float* bias, float* out, int64_t ld);

  // Row `index` of w, dequantised, times scale.
  void (*embedding_row)(const PackedMatrix& w, int64_t index, float scale, float* out);

  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* out);
  void (*add)(const float* a, const float* b, int64_t n, float* out);
  void (*scale)(const float* x, float factor, int64_t n, float* out);
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* out);
  void (*geglu)(const float* gate, const float* up, int64_t n, float* out);
  void (*softcap)(const float* x, float cap, int64_t n, float* out);

  // x * sigmoid(gate), element by element; and all of x times the sigmoid of one gate.
  void (*sigmoid_gate)(const float* x, const float* gate, int64_t n, float* out);
  void (*sigmoid_scale)(const float* x, float gate, int64_t n, float* out);

  // Rotates heads of one row in place at `position`; heads are head_dim apart.
  void (*rope)(float* x, int heads, int head_dim, const RopeTable& table, int64_t position);

  // Rounds one row's k and v ([kv_heads][head_dim]) to f16 and stores them at (slot, position).
  void (*store_kv)(const KvLayer& cache, int slot, int64_t position, const float* k, const float* v);

  // Rows [0, m) of one kv head: q and out are [m][heads][head_dim]. slots/positions are per row.
  void (*attention)(const KvLayer& cache, const AttentionShape& shape, int m, const int32_t* slots,
                    const int32_t* positions, const float* q, int kv_head, float* out);

  // Channels [begin, end) of a chain's rows, begin a multiple of kGroup: silu of the causal convolution with
  // `taps` (a float matrix of channels x kernel). x and out are at channel `begin`, their rows x_ld and
  // out_ld apart.
  void (*convolution)(const PackedMatrix& taps, const StateLayer& states, const ChainRows& rows,
                      int64_t begin, int64_t end, const float* x, int64_t x_ld, float* out, int64_t out_ld);

  // The gated delta rule for panels [panel_begin, panel_end) of one value head, row by row; out is [m][ld],
  // at column 0 of the head.
  void (*delta_rule)(const DeltaShape& shape, const StateLayer& states, const ChainRows& rows,
                     const DeltaInputs& in, int head, int panel_begin, int panel_end, float* out, int64_t ld);

  // The `used` greatest of `experts` logits and their shares of the softmax over all, or over themselves when
  // `normalise` (kernels/experts.hpp); the sum of `used` results of n columns times their shares.
  void (*route)(const float* logits, int64_t experts, int used, bool normalise, float* ids, float* shares);
  void (*weighted_sum)(const float* x, const float* shares, int used, int64_t n, float* out);

  // Greatest value among x[0, n), lowest index on a tie.
  void (*argmax)(const float* x, int64_t n, float* value, int64_t* index);

  // Sampling (kernels/row_scan.hpp). Lowest i in [begin, n) with x[i] >= least, or n.
  int64_t (*find_at_least)(const float* x, int64_t begin, int64_t n, float least);

  // Sum of exp((x[i] - top) * factor) over [0, n), where top is the greatest element.
  float (*sum_exp)(const float* x, int64_t n, float top, float factor);

  // Lowest i in [begin, n) for which (x[i] - top) * factor plus the token's noise, in units of log 2, may
  // reach `least`, or n.
  int64_t (*find_contender)(const float* x, int64_t begin, int64_t n, const NoiseKey& key, float top,
                            float factor, float least);
};

const KernelTable& kernels_portable();
const KernelTable& kernels_avx2();
const KernelTable& kernels_avx512();

// The table named by `name`, or (null) by VERISPEC_ISA, or the best this CPU runs.
// Throws std::invalid_argument naming the choices when it is unknown or unavailable.
const KernelTable& select_kernels(const char* name);

}  // namespace verispec
