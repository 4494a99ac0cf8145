// The cosines and sines of one rotary embedding, for every position a model may use.
#pragma once

#include <cstdint>
#include <vector>

#include "../kernels/kernel_table.hpp"

namespace verispec {

struct RopeTables {
  int64_t positions;
  std::vector<float> cos;  // [positions][pairs]
  std::vector<float> sin;
  RopeTable table;  // points into cos and sin
};

}  // namespace verispec
