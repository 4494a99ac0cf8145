// How phases are cut into chunks. Sizes never change a result, only how well threads share the work.
#include <algorithm>

#include "execute.hpp"
#include "phase_plan.hpp"

namespace verispec {
namespace {

constexpr int64_t kLeastChunkBytes = 16 << 10;  // of weights: about a microsecond of reading
constexpr int64_t kLeastRowElements = 4096;     // of a row-wise phase: about a microsecond of arithmetic
constexpr int kAttentionChunksPerThread = 4;

int64_t groups_of(const PackedMatrix& matrix) { return (matrix.n + kGroup - 1) / kGroup; }
int64_t group_bytes(const PackedMatrix& matrix) {
  return static_cast<int64_t>(matrix.bytes) / groups_of(matrix);
}

// Cuts [0, groups) into chunks that shrink towards the end, so that threads finish together: each takes an
// equal share of half of what is left, in multiples of `unit`, between `least` and `most`.
void cut_groups(int64_t groups, int part, int64_t unit, int64_t least, int64_t most, const PassShape& shape,
                std::vector<Chunk>& chunks) {
  for (int64_t begin = 0; begin < groups;) {
    int64_t size = std::clamp((groups - begin) / (2 * shape.threads), least, std::max(least, most));
    size = (size + unit - 1) / unit * unit;
    const int64_t end = std::min(groups, begin + size);
    chunks.push_back({0, 0, part, begin, end});
    begin = end;
  }
}

void cut_linear(ProgramPhase& phase, const PassShape& shape) {
  const Instruction& in = *phase.instructions[0];
  int64_t bytes = 0;
  bool equal = true;
  for (const auto& matrix : in.weights) {
    bytes += group_bytes(matrix->packed);
    equal = equal && matrix->packed.n == in.weights[0]->packed.n;
  }
  const bool has_epilogue = phase.instructions.size() > 1;
  const int64_t unit = has_epilogue ? kBlock / kGroup : 1;
  if (equal) {
    const int64_t least = std::max<int64_t>(1, kLeastChunkBytes / bytes);
    return cut_groups(groups_of(in.weights[0]->packed), -1, unit, least, INT64_MAX, shape, phase.chunks);
  }
  for (size_t part = 0; part < in.weights.size(); ++part) {
    const PackedMatrix& matrix = in.weights[part]->packed;
    const int64_t least = std::max<int64_t>(1, kLeastChunkBytes / group_bytes(matrix));
    cut_groups(groups_of(matrix), static_cast<int>(part), 1, least, INT64_MAX, shape, phase.chunks);
  }
  std::stable_sort(phase.chunks.begin(), phase.chunks.end(),
                   [](const Chunk& a, const Chunk& b) { return a.end - a.begin > b.end - b.begin; });
}

void cut_head(ProgramPhase& phase, const PassShape& shape) {
  const PackedMatrix& matrix = phase.instructions[0]->weights[0]->packed;
  const int64_t most = head_chunk_groups(shape.outputs);
  const int64_t least = std::min(most, std::max<int64_t>(1, kLeastChunkBytes / group_bytes(matrix)));
  cut_groups(groups_of(matrix), 0, 1, least, most, shape, phase.chunks);
}

void cut_attention(ProgramPhase& phase, const PassShape& shape) {
  const Instruction& in = *phase.instructions[0];
  const int kv_heads = in.cache.kv_heads;
  const int wanted = (kAttentionChunksPerThread * shape.threads + kv_heads - 1) / kv_heads;
  const int tiles = std::clamp(wanted, 1, shape.rows);
  for (int tile = 0; tile < tiles; ++tile) {
    const int begin = static_cast<int>(int64_t{shape.rows} * tile / tiles);
    const int end = static_cast<int>(int64_t{shape.rows} * (tile + 1) / tiles);
    for (int head = 0; head < kv_heads; ++head) phase.chunks.push_back({begin, end, 0, head, head + 1});
  }
}

void cut_rows(ProgramPhase& phase, const std::vector<Buffer>& buffers, const PassShape& shape) {
  int64_t elements = 0;
  for (const Instruction* in : phase.instructions) {
    for (BufferId id : in->reads) elements += buffers[id].width;
    for (BufferId id : in->writes) elements += buffers[id].width;
  }
  const int rows = phase.instructions[0]->domain == Domain::kPass ? shape.rows : shape.outputs;
  const int64_t useful = std::min<int64_t>(rows * elements / kLeastRowElements, 4 * shape.threads);
  const int chunks = static_cast<int>(std::clamp<int64_t>(useful, 1, rows));
  for (int i = 0; i < chunks; ++i) {
    phase.chunks.push_back({static_cast<int>(int64_t{rows} * i / chunks),
                            static_cast<int>(int64_t{rows} * (i + 1) / chunks), 0, 0, 0});
  }
}

}  // namespace

void plan_chunks(ProgramPhase& phase, const std::vector<Buffer>& buffers, const PassShape& shape) {
  switch (phase.instructions[0]->op) {
    case Op::kLinear:
      return cut_linear(phase, shape);
    case Op::kAttention:
      return cut_attention(phase, shape);
    case Op::kHead:
      return cut_head(phase, shape);
    default:
      return cut_rows(phase, buffers, shape);
  }
}

}  // namespace verispec
