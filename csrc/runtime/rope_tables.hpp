// The cosines and sines of one rotary embedding, for every position a model may use.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../kernels/kernel_table.hpp"

namespace verispec {

struct RopeTables {
  int64_t positions;
  std::vector<float> cos;  // [positions][pairs]
  std::vector<float> sin;
  RopeTable table;  // points into cos and sin
};

// Pair i turns by position * inverse_frequencies[i], one double product; its cosine and sine are taken in
// double, multiplied by magnitude and rounded once. Scaling schemes are already folded into the frequencies.
std::shared_ptr<RopeTables> make_rope_tables(const std::vector<double>& inverse_frequencies, double magnitude,
                                             bool interleaved, int64_t positions);

}  // namespace verispec
