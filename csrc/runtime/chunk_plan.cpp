// How phases are cut into chunks. Sizes never change a result, only how well threads share the work.
#include <algorithm>

#include "phase_plan.hpp"

namespace verispec {
namespace {

constexpr int64_t kLeastChunkBytes = 16 << 10;  // of weights: about a microsecond of reading
constexpr int kMostAttentionChunksPerThread = 4;
constexpr int kMostAttentionRows = 32;
constexpr int64_t kHeadSliceFloats = 4096;  // a slice of the logits that stays in the first-level cache
constexpr int64_t kMostHeadGroups = 64;

int64_t groups_of(const PackedMatrix& matrix) { return (matrix.n + kGroup - 1) / kGroup; }
int64_t group_bytes(const PackedMatrix& matrix) {
  return static_cast<int64_t>(matrix.bytes) / groups_of(matrix);
}

// Chunks shrink towards the end, so that threads finish together: each takes an equal share of half of what
// is left, in multiples of `unit`, between `least` and `most`.
int64_t next_size(int64_t left, int64_t unit, int64_t least, int64_t most, const PassShape& shape) {
  const int64_t size = std::clamp(left / (2 * shape.threads), least, std::max(least, most));
  return (size + unit - 1) / unit * unit;
}

// Matrices of the same shape are cut alike, so that a chunk holds the same columns of all.
void cut_together(ProgramPhase& phase, int64_t bytes, const PassShape& shape) {
  const int64_t groups = groups_of(phase.instructions[0]->weights[0]->packed);
  const int64_t unit = phase.instructions.size() > 1 ? kBlock / kGroup : 1;
  const int64_t least = std::max<int64_t>(1, kLeastChunkBytes * groups / bytes);
  for (int64_t begin = 0; begin < groups;) {
    const int64_t end = std::min(groups, begin + next_size(groups - begin, unit, least, groups, shape));
    phase.chunks.push_back({0, 0, -1, begin, end});
    begin = end;
  }
}

// Matrices of different shapes follow one another; a chunk ends where its matrix does.
void cut_in_turn(ProgramPhase& phase, int64_t bytes, const PassShape& shape) {
  const Instruction& in = *phase.instructions[0];
  int64_t left = bytes;
  for (size_t part = 0; part < in.weights.size(); ++part) {
    const PackedMatrix& matrix = in.weights[part]->packed;
    const int64_t groups = groups_of(matrix);
    for (int64_t begin = 0; begin < groups;) {
      const int64_t size = next_size(left, 1, kLeastChunkBytes, bytes, shape) / group_bytes(matrix);
      const int64_t end = std::min(groups, begin + std::max<int64_t>(1, size));
      phase.chunks.push_back({0, 0, static_cast<int>(part), begin, end});
      left -= (end - begin) * group_bytes(matrix);
      begin = end;
    }
  }
}

void cut_linear(ProgramPhase& phase, const PassShape& shape) {
  const Instruction& in = *phase.instructions[0];
  int64_t bytes = 0;
  bool equal = true;
  for (const auto& matrix : in.weights) {
    bytes += groups_of(matrix->packed) * group_bytes(matrix->packed);
    equal = equal && matrix->packed.n == in.weights[0]->packed.n;
  }
  return equal ? cut_together(phase, bytes, shape) : cut_in_turn(phase, bytes, shape);
}

void cut_head(ProgramPhase& phase, const PassShape& shape) {
  const PackedMatrix& matrix = phase.instructions[0]->weights[0]->packed;
  const int64_t most = std::clamp<int64_t>(kHeadSliceFloats / kGroup / shape.outputs, 1, kMostHeadGroups);
  const int64_t least = std::min(most, std::max<int64_t>(1, kLeastChunkBytes / group_bytes(matrix)));
  const int64_t groups = groups_of(matrix);
  for (int64_t begin = 0; begin < groups;) {
    const int64_t end = std::min(groups, begin + next_size(groups - begin, 1, least, most, shape));
    phase.chunks.push_back({0, 0, 0, begin, end});
    begin = end;
  }
}

// As few row tiles as share out evenly, since every tile reads the keys and values anew.
int attention_tiles(int kv_heads, const PassShape& shape) {
  const int most = std::min(shape.rows, kMostAttentionChunksPerThread * shape.threads);
  const int least = (shape.rows + kMostAttentionRows - 1) / kMostAttentionRows;
  for (int tiles = least; tiles < most; ++tiles) {
    if (tiles * kv_heads % shape.threads == 0) return tiles;
  }
  return std::max(least, most);
}

void cut_attention(ProgramPhase& phase, const PassShape& shape) {
  const int kv_heads = phase.instructions[0]->cache.kv_heads;
  const int tiles = attention_tiles(kv_heads, shape);
  for (int tile = tiles - 1; tile >= 0; --tile) {  // later rows see more keys: begin with them
    const int begin = static_cast<int>(int64_t{shape.rows} * tile / tiles);
    const int end = static_cast<int>(int64_t{shape.rows} * (tile + 1) / tiles);
    for (int head = 0; head < kv_heads; ++head) phase.chunks.push_back({begin, end, 0, head, head + 1});
  }
}

// Groups of channels.
void cut_convolution(ProgramPhase& phase, const PassShape& shape) {
  const int64_t groups = groups_of(phase.instructions[0]->weights[0]->packed);
  const int64_t group_bytes = int64_t{kGroup} * shape.rows * static_cast<int64_t>(sizeof(float));
  const int64_t least = std::max<int64_t>(1, kLeastChunkBytes / group_bytes);
  for (int64_t begin = 0; begin < groups;) {
    const int64_t end = std::min(groups, begin + next_size(groups - begin, 1, least, groups, shape));
    phase.chunks.push_back({0, 0, 0, begin, end});
    begin = end;
  }
}

// Panels of heads; whole heads, whose rows are then prepared once, where there are enough of them.
void cut_delta(ProgramPhase& phase, const PassShape& shape) {
  const DeltaShape& delta = phase.instructions[0]->delta;
  const int64_t panels = int64_t{delta.value_heads} * head_panels(delta);
  const int64_t unit = takes_whole_heads(delta, shape) ? head_panels(delta) : 1;
  const int64_t state = int64_t{delta.key_dim} * delta.value_dim * static_cast<int64_t>(sizeof(float));
  const int64_t least = std::max(unit, kLeastChunkBytes * head_panels(delta) / (state * shape.rows));
  for (int64_t begin = 0; begin < panels;) {
    const int64_t end = std::min(panels, begin + next_size(panels - begin, unit, least, panels, shape));
    phase.chunks.push_back({0, 0, 0, begin, end});
    begin = end;
  }
}

// Entries of the pass.
void cut_gather(ProgramPhase& phase, const PassShape& shape) {
  const Instruction& in = *phase.instructions[0];
  const int entries = in.count * (in.domain == Domain::kPass ? shape.rows : shape.outputs);
  for (int begin = 0; begin < entries; begin += kMaxTileRows)
    phase.chunks.push_back({begin, std::min(begin + kMaxTileRows, entries), 0, 0, 0});
}

// Groups of outputs, each of all experts at once: which of them have rows is not known before.
void cut_experts(ProgramPhase& phase, const PassShape& shape) {
  const int64_t groups = groups_of(phase.instructions[0]->experts->first);
  const int64_t least = std::clamp<int64_t>(groups / (4 * shape.threads), 1, 4);
  for (int64_t begin = 0; begin < groups;) {
    const int64_t end = std::min(groups, begin + next_size(groups - begin, 1, least, groups, shape));
    phase.chunks.push_back({0, 0, 0, begin, end});
    begin = end;
  }
}

// Rows of one tile share cache lines, quantised and in the KV cache: two threads on one tile are slower than
// one.
void cut_rows(ProgramPhase& phase, const PassShape& shape) {
  const int rows = phase.instructions[0]->domain == Domain::kPass ? shape.rows : shape.outputs;
  for (int begin = 0; begin < rows; begin += kMaxTileRows) {
    phase.chunks.push_back({begin, std::min(begin + kMaxTileRows, rows), 0, 0, 0});
  }
}

}  // namespace

void plan_chunks(ProgramPhase& phase, const PassShape& shape) {
  switch (phase.instructions[0]->op) {
    case Op::kLinear:
      return cut_linear(phase, shape);
    case Op::kAttention:
      return cut_attention(phase, shape);
    case Op::kConvolution:
      return cut_convolution(phase, shape);
    case Op::kDelta:
      return cut_delta(phase, shape);
    case Op::kExpertOrder:
      return phase.chunks.push_back({});
    case Op::kExpertGather:
      return cut_gather(phase, shape);
    case Op::kExpertLinear:
      return cut_experts(phase, shape);
    case Op::kHead:
      return cut_head(phase, shape);
    default:
      return cut_rows(phase, shape);
  }
}

}  // namespace verispec
