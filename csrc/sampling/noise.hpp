// The sampler's noise: a pure function of (seed, choice, position, token), so nothing has to be advanced or
// rolled back, and a drafter that knows the key draws the same noise as its target.
//
// 64 bits per token by SplitMix64's finaliser over a Weyl sequence in the token id, with a second key word
// between its multiplications, so that the noise of two positions is not the same sequence shifted.
// The functions have internal linkage: kernels include this header for other instruction sets.
#pragma once

#include <cstdint>

namespace verispec {

struct NoiseKey {
  uint64_t first, second;
};

constexpr uint64_t kNoiseStep = 0x9e3779b97f4a7c15ull;  // 2^64 / golden ratio, odd
constexpr uint64_t kNoiseMultiplier1 = 0xbf58476d1ce4e5b9ull;
constexpr uint64_t kNoiseMultiplier2 = 0x94d049bb133111ebull;

static inline uint64_t mix_bits(uint64_t z, uint64_t second_key) {
  z = (z ^ (z >> 30)) * kNoiseMultiplier1;
  z ^= second_key;
  z = (z ^ (z >> 27)) * kNoiseMultiplier2;
  return z ^ (z >> 31);
}

// The key of one sampled position.
static inline NoiseKey noise_key(uint64_t seed, uint64_t choice, uint64_t position) {
  uint64_t state = mix_bits(seed + kNoiseStep, 0);
  state = mix_bits((state ^ choice) + kNoiseStep, 0);
  state = mix_bits((state ^ position) + kNoiseStep, 0);
  return {state, mix_bits(state + kNoiseStep, 0)};
}

// 64 uniform bits for a token. Small values are large Gumbel noise.
static inline uint64_t noise_bits(const NoiseKey& key, uint32_t token) {
  return mix_bits(key.first + kNoiseStep * (static_cast<uint64_t>(token) + 1), key.second);
}

// Standard Gumbel noise -log(-log(1 - v)) for v = (bits + 1/2) / 2^64: from -3.81 to 45.05, without rounding
// either tail to fewer steps.
double gumbel_from_bits(uint64_t bits);

// The noise of one token.
double gumbel(uint64_t seed, uint64_t choice, uint64_t position, uint32_t token);

}  // namespace verispec
