// Tokens in the order of their logits, and the filters that cut that order.
#pragma once

#include <cstdint>
#include <vector>

#include "../kernels/kernel_table.hpp"

namespace verispec {

struct Candidate {
  float logit;
  int32_t token;
};

// The total order of every sort: greatest logit first, lowest id among equals.
inline bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// A row of logits and its greatest value, which is finite.
struct LogitRow {
  const KernelTable& kernels;
  const float* logits;
  int64_t size;
  float top;
};

// Sum over the row of exp((logit - top) / temperature): chunks of 1024 tokens, added in double in their
// order.
double sum_of_weights(const LogitRow& row, double temperature);

// The min(k, size) first tokens in order. Tokens at -inf are left out.
std::vector<Candidate> first_tokens(const LogitRow& row, int64_t k);

// All tokens with logit >= least, rounded to float, by id. Tokens at -inf are left out.
std::vector<Candidate> tokens_at_least(const LogitRow& row, double least);

// The shortest prefix of the row's order that holds at least `share` of its probability at `temperature`;
// itself in no order.
std::vector<Candidate> nucleus(const LogitRow& row, double temperature, double share);

// Cuts `ordered`, whose own probabilities are taken to sum to one, to the shortest prefix that holds `share`.
void cut_to_nucleus(std::vector<Candidate>& ordered, float top, double temperature, double share);

// Drops candidates less than `share` times as probable as a token at `top`.
void cut_to_share_of_top(std::vector<Candidate>& candidates, float top, double temperature, double share);

}  // namespace verispec
