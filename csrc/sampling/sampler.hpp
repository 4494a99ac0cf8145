// Chooses one token from one row of logits.
//
// The order of processing: logit bias; repetition penalty over prompt and output; presence and frequency
// penalties over the output; temperature; top_k; top_p; min_p. Then the greatest processed logit, lowest id
// on a tie, or the greatest sum of logit / temperature and Gumbel noise keyed by (seed, choice, position,
// token). A choice depends on its arguments alone. Where only some tokens are allowed, the others count as
// being at -inf before anything looks at the logits.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "../kernels/kernel_table.hpp"
#include "candidates.hpp"
#include "token_history.hpp"

namespace verispec {

struct SamplingParameters {
  double temperature = 1.0;  // 0: greedy
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;  // divides positive logits of seen tokens, multiplies negative ones
  double presence_penalty = 0.0;    // subtracted once from tokens of the output
  double frequency_penalty = 0.0;   // subtracted for each time a token is in the output
  std::vector<std::pair<int32_t, double>> logit_bias;  // token, added; distinct tokens
  uint64_t seed = 0;
  uint64_t choice = 0;
};

struct ScoredToken {
  int32_t token;
  double logprob;
};

// The model's own distribution: log-softmax of unprocessed logits.
struct LogProbabilities {
  double chosen;
  std::vector<ScoredToken> alternatives;  // most probable first
};

class Sampler {
 public:
  // Throws std::invalid_argument that names a parameter outside its range.
  Sampler(const KernelTable& kernels, SamplingParameters parameters);

  // The token at `position` for logits [size]. `history` is what penalties count. `allowed`, unless null:
  // token i may be chosen when bit i % 32 of word i / 32 is set. Throws std::invalid_argument when no allowed
  // token has a finite logit or one is +inf, and for a bias on a token outside the vocabulary.
  int32_t choose(const float* logits, int64_t size, uint64_t position, const TokenHistory& history,
                 const uint32_t* allowed = nullptr);

  const SamplingParameters& parameters() const { return parameters_; }

 private:
  const float* adjust(const float* logits, int64_t size, const TokenHistory& history);
  const float* forbid(const float* logits, int64_t size, const uint32_t* allowed);
  std::vector<Candidate> filter(const LogitRow& row) const;

  const KernelTable& kernels_;
  SamplingParameters parameters_;
  std::vector<float> adjusted_;  // scratch
};

// Log-probability of `token` and the `alternatives` most probable tokens, from unprocessed logits.
LogProbabilities log_probabilities(const KernelTable& kernels, const float* logits, int64_t size,
                                   int32_t token, int64_t alternatives);

}  // namespace verispec
