#include "sampler.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "noise.hpp"
#include "scalar_math.hpp"

namespace verispec {
namespace {

constexpr double kLog2E = 1.4426950408889634;

void require_parameter(const char* name, double value, bool holds, const char* expected) {
  if (std::isfinite(value) && holds) return;
  throw std::invalid_argument(std::string(name) + ": expected " + expected + ", found " +
                              std::to_string(value));
}

LogitRow read_row(const KernelTable& kernels, const float* logits, int64_t size, int64_t* top_token) {
  float top;
  kernels.argmax(logits, size, &top, top_token);
  if (std::isinf(top))
    throw std::invalid_argument(std::string("logits: expected a finite greatest value, found ") +
                                (top > 0 ? "+inf at token " + std::to_string(*top_token) : "none"));
  return {kernels, logits, size, top};
}

// The greatest sum of scaled logit and noise so far. Sums are relative to the row's greatest logit.
class Race {
 public:
  Race(const LogitRow& row, double temperature, const NoiseKey& key)
      : row_(row), temperature_(temperature), key_(key) {}

  void enter(int32_t token) {
    const double height =
        (static_cast<double>(row_.logits[token]) - static_cast<double>(row_.top)) / temperature_;
    const uint64_t bits = noise_bits(key_, static_cast<uint32_t>(token));
    if (winner_ >= 0 && height + noise_bound(bits) < best_) return;
    const double sum = height + gumbel_from_bits(bits);
    if (winner_ >= 0 && !(sum > best_ || (sum == best_ && token < winner_))) return;
    best_ = sum;
    winner_ = token;
  }

  double best() const { return best_; }
  int32_t winner() const { return winner_; }

 private:
  // More than the noise of `bits`: -log(-log(1 - v)) < -log(v), rounded up to a power of two.
  static double noise_bound(uint64_t bits) { return 0.69314718056 * (bits ? __builtin_clzll(bits) + 1 : 66); }

  const LogitRow& row_;
  double temperature_;
  const NoiseKey& key_;
  double best_ = -std::numeric_limits<double>::infinity();
  int32_t winner_ = -1;
};

// Over all tokens: the kernel passes by those whose noise cannot lift them to the best sum so far.
int32_t race_all(const LogitRow& row, int64_t first, double temperature, const NoiseKey& key) {
  Race race(row, temperature, key);
  race.enter(static_cast<int32_t>(first));
  const float factor = static_cast<float>(std::min(kLog2E / temperature, 1e30));
  for (int64_t i = 0;; ++i) {
    const float least = static_cast<float>(race.best() * kLog2E);
    i = row.kernels.find_contender(row.logits, i, row.size, key, row.top, factor, least);
    if (i >= row.size) return race.winner();
    race.enter(static_cast<int32_t>(i));
  }
}

int32_t race_among(const LogitRow& row, const std::vector<Candidate>& candidates, double temperature,
                   const NoiseKey& key) {
  Race race(row, temperature, key);
  for (const Candidate& candidate : candidates) race.enter(candidate.token);
  return race.winner();
}

}  // namespace

Sampler::Sampler(const KernelTable& kernels, SamplingParameters parameters)
    : kernels_(kernels), parameters_(std::move(parameters)) {
  const SamplingParameters& p = parameters_;
  require_parameter("temperature", p.temperature, p.temperature >= 0.0, "a number of at least 0");
  require_parameter("top_k", static_cast<double>(p.top_k), p.top_k >= 0, "at least 0");
  require_parameter("top_p", p.top_p, p.top_p > 0.0 && p.top_p <= 1.0, "over 0 and at most 1");
  require_parameter("min_p", p.min_p, p.min_p >= 0.0 && p.min_p <= 1.0, "0 to 1");
  require_parameter("repetition_penalty", p.repetition_penalty, p.repetition_penalty > 0.0, "over 0");
  require_parameter("presence_penalty", p.presence_penalty, true, "a finite number");
  require_parameter("frequency_penalty", p.frequency_penalty, true, "a finite number");
}

// Logits with bias and penalties: computed in double, rounded once for each of the two.
const float* Sampler::adjust(const float* logits, int64_t size, const TokenHistory& history) {
  const SamplingParameters& p = parameters_;
  const bool penalised =
      p.repetition_penalty != 1.0 || p.presence_penalty != 0.0 || p.frequency_penalty != 0.0;
  if (!penalised && p.logit_bias.empty()) return logits;
  adjusted_.assign(logits, logits + size);
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= size)
      throw std::invalid_argument("logit_bias: expected tokens below " + std::to_string(size) + ", found " +
                                  std::to_string(token));
    adjusted_[token] = static_cast<float>(adjusted_[token] + bias);
  }
  if (!penalised) return adjusted_.data();
  for (const auto& [token, counts] : history.counts()) {
    if (token < 0 || token >= size) continue;
    double logit = adjusted_[token];
    logit = logit > 0.0 ? logit / p.repetition_penalty : logit * p.repetition_penalty;
    if (counts.output > 0) logit -= p.presence_penalty + p.frequency_penalty * counts.output;
    adjusted_[token] = static_cast<float>(logit);
  }
  return adjusted_.data();
}

// Logits with -inf for every token that is not allowed, in the scratch row, where `logits` may be already.
// Without branches, which the bits of a grammar's mask would mislead.
const float* Sampler::forbid(const float* logits, int64_t size, const uint32_t* allowed) {
  constexpr uint32_t kForbidden = 0xff800000u;  // the bits of -inf
  adjusted_.resize(static_cast<size_t>(size));
  for (int64_t begin = 0; begin < size; begin += 32) {
    const int64_t count = std::min<int64_t>(32, size - begin);
    const uint32_t word = allowed[begin / 32];
    if (word == 0) {
      std::fill_n(adjusted_.data() + begin, count, -std::numeric_limits<float>::infinity());
      continue;
    }
    uint32_t bits[32] = {};
    std::memcpy(bits, logits + begin, static_cast<size_t>(count) * sizeof(float));
    for (int i = 0; word != ~0u && i < 32; ++i) {
      const uint32_t keep = 0u - (word >> i & 1u);
      bits[i] = (bits[i] & keep) | (kForbidden & ~keep);
    }
    std::memcpy(adjusted_.data() + begin, bits, static_cast<size_t>(count) * sizeof(float));
  }
  return adjusted_.data();
}

// The tokens that pass top_k, top_p and min_p; at least one of these acts.
std::vector<Candidate> Sampler::filter(const LogitRow& row) const {
  const SamplingParameters& p = parameters_;
  std::vector<Candidate> kept;
  if (p.top_k > 0 && p.top_k < row.size) {
    kept = first_tokens(row, p.top_k);
    if (p.top_p < 1.0) cut_to_nucleus(kept, row.top, p.temperature, p.top_p);
  } else if (p.top_p < 1.0) {
    kept = nucleus(row, p.temperature, p.top_p);
  } else {
    // A little further down than min_p reaches, whatever the rounding; the exact cut follows.
    const double depth = (1.0 - exact_log(p.min_p)) * p.temperature + 1e-6 * std::fabs(row.top);
    kept = tokens_at_least(row, static_cast<double>(row.top) - depth);
  }
  if (p.min_p > 0.0) cut_to_share_of_top(kept, row.top, p.temperature, p.min_p);
  return kept;
}

int32_t Sampler::choose(const float* logits, int64_t size, uint64_t position, const TokenHistory& history,
                        const uint32_t* allowed) {
  const SamplingParameters& p = parameters_;
  logits = adjust(logits, size, history);
  if (allowed) logits = forbid(logits, size, allowed);
  int64_t top_token;
  const LogitRow row = read_row(kernels_, logits, size, &top_token);
  if (p.temperature == 0.0) return static_cast<int32_t>(top_token);
  const NoiseKey key = noise_key(p.seed, p.choice, position);
  const bool filtered = (p.top_k > 0 && p.top_k < size) || p.top_p < 1.0 || p.min_p > 0.0;
  if (!filtered) return race_all(row, top_token, p.temperature, key);
  return race_among(row, filter(row), p.temperature, key);
}

LogProbabilities log_probabilities(const KernelTable& kernels, const float* logits, int64_t size,
                                   int32_t token, int64_t alternatives) {
  if (token < 0 || token >= size)
    throw std::invalid_argument("token: expected 0 to " + std::to_string(size - 1) + ", found " +
                                std::to_string(token));
  int64_t top_token;
  const LogitRow row = read_row(kernels, logits, size, &top_token);
  const double log_sum = exact_log(sum_of_weights(row, 1.0));
  const auto logprob = [&](float logit) {
    return (static_cast<double>(logit) - static_cast<double>(row.top)) - log_sum;
  };
  LogProbabilities result{logprob(logits[token]), {}};
  if (alternatives > 0)
    for (const Candidate& candidate : first_tokens(row, alternatives))
      result.alternatives.push_back({candidate.token, logprob(candidate.logit)});
  return result;
}

}  // namespace verispec
