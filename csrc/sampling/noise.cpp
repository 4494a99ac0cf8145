#include "noise.hpp"

#include "scalar_math.hpp"

namespace verispec {

double gumbel_from_bits(uint64_t bits) {
  // -log(1 - v) from whichever of v and 1 - v is at most 1/2 and therefore keeps its digits.
  const bool lower_half = bits >> 63 == 0;
  const double part = (static_cast<double>(lower_half ? bits : ~bits) + 0.5) * 0x1p-64;
  return -exact_log(lower_half ? -exact_log1p(-part) : -exact_log(part));
}

double gumbel(uint64_t seed, uint64_t choice, uint64_t position, uint32_t token) {
  return gumbel_from_bits(noise_bits(noise_key(seed, choice, position), token));
}

}  // namespace verispec
