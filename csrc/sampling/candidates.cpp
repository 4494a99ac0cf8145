#include "candidates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "scalar_math.hpp"

namespace verispec {
namespace {

constexpr int64_t kChunk = 1024;
constexpr float kLowest = std::numeric_limits<float>::lowest();

double weight(float logit, float top, double temperature) {
  return exact_exp((static_cast<double>(logit) - static_cast<double>(top)) / temperature);
}

// Length of the shortest prefix with at least `mass`, or -1 when all of it has less.
int64_t prefix_with_mass(const std::vector<Candidate>& ordered, float top, double temperature, double mass) {
  double sum = 0.0;
  for (size_t i = 0; i < ordered.size(); ++i) {
    sum += weight(ordered[i].logit, top, temperature);
    if (sum >= mass) return static_cast<int64_t>(i) + 1;
  }
  return -1;
}

}  // namespace

double sum_of_weights(const LogitRow& row, double temperature) {
  const float factor = static_cast<float>(std::min(1.0 / temperature, 1e30));
  double sum = 0.0;
  for (int64_t i = 0; i < row.size; i += kChunk)
    sum += static_cast<double>(
        row.kernels.sum_exp(row.logits + i, std::min(kChunk, row.size - i), row.top, factor));
  return sum;
}

std::vector<Candidate> tokens_at_least(const LogitRow& row, double least) {
  const float bound = least < kLowest ? kLowest : static_cast<float>(least);
  std::vector<Candidate> found;
  for (int64_t i = 0; (i = row.kernels.find_at_least(row.logits, i, row.size, bound)) < row.size; ++i)
    found.push_back({row.logits[i], static_cast<int32_t>(i)});
  return found;
}

std::vector<Candidate> first_tokens(const LogitRow& row, int64_t k) {
  k = std::min(k, row.size);
  // Tokens that reach the k-th value so far are gathered; when room runs out the k first stay.
  const size_t room = static_cast<size_t>(std::max<int64_t>(2 * k, 512));
  std::vector<Candidate> found;
  found.reserve(room);
  float least = kLowest;
  const auto keep_first = [&] {
    if (static_cast<int64_t>(found.size()) <= k) return;
    std::nth_element(found.begin(), found.begin() + (k - 1), found.end(), before);
    found.resize(static_cast<size_t>(k));
    least = found.back().logit;
  };
  for (int64_t i = 0; (i = row.kernels.find_at_least(row.logits, i, row.size, least)) < row.size; ++i) {
    found.push_back({row.logits[i], static_cast<int32_t>(i)});
    if (found.size() == room) keep_first();
  }
  keep_first();
  std::sort(found.begin(), found.end(), before);
  return found;
}

namespace {

// Splits `found` (logits within `depth` temperatures of the top) at the point where its order has gathered
// `mass`: keeps the tokens before it, in no order. Returns false, and leaves `found` as it is, when all of it
// has less. Tokens are weighed by bands of logits, and only the band that holds the point is sorted. `margin`
// becomes how far `mass` is from what the tokens before the point hold, and with the last of them, at least.
bool keep_mass(std::vector<Candidate>& found, float top, double temperature, double depth, double mass,
               double& margin) {
  constexpr int kBands = 256;
  const double scale = std::min(kBands / (depth * temperature), 1e30);
  const auto band = [&](const Candidate& candidate) {
    const double below = static_cast<double>(top) - static_cast<double>(candidate.logit);
    return std::min(static_cast<int>(std::min(below * scale, kBands - 1.0)), kBands - 1);
  };
  double masses[kBands] = {};
  for (const Candidate& candidate : found)
    masses[band(candidate)] += weight(candidate.logit, top, temperature);
  int last = 0;
  double gathered = 0.0;
  for (; last < kBands && gathered + masses[last] < mass; ++last) gathered += masses[last];
  if (last == kBands) {
    margin = std::min(margin, mass - gathered);
    return false;
  }
  const auto edge =
      std::partition(found.begin(), found.end(), [&](const Candidate& c) { return band(c) < last; });
  auto end = std::partition(edge, found.end(), [&](const Candidate& c) { return band(c) == last; });
  std::sort(edge, end, before);
  for (auto at = edge; at != end; ++at) {
    margin = mass - gathered;
    gathered += weight(at->logit, top, temperature);
    if (gathered >= mass) end = at + 1;
  }
  margin = std::min(margin, std::abs(gathered - mass));
  found.erase(end, found.end());
  return true;
}

// What the single-precision sum may be off by, as a share of it.
constexpr double kSumError = 1e-5;

// The same sum in double precision.
double exact_sum_of_weights(const LogitRow& row, double temperature) {
  double sum = 0.0;
  for (int64_t i = 0; i < row.size; ++i) sum += weight(row.logits[i], row.top, temperature);
  return sum;
}

std::vector<Candidate> tokens_with_mass(const LogitRow& row, double temperature, double mass,
                                        double& margin) {
  // Few tokens hold most of the mass as a rule: look further down only when they do not.
  std::vector<Candidate> found;
  for (double depth : {3.0, 6.0, 12.0, 32.0}) {
    found = tokens_at_least(row, static_cast<double>(row.top) - depth * temperature);
    if (keep_mass(found, row.top, temperature, depth, mass, margin)) return found;
  }
  return tokens_at_least(row, kLowest);
}

}  // namespace

std::vector<Candidate> nucleus(const LogitRow& row, double temperature, double share) {
  const double mass = share * sum_of_weights(row, temperature);
  double margin = std::numeric_limits<double>::infinity();
  std::vector<Candidate> found = tokens_with_mass(row, temperature, mass, margin);
  if (margin > kSumError * mass) return found;
  // Equal logits can put the mass just where a token ends: then every bit of the sum counts.
  return tokens_with_mass(row, temperature, share * exact_sum_of_weights(row, temperature), margin);
}

void cut_to_nucleus(std::vector<Candidate>& ordered, float top, double temperature, double share) {
  double mass = 0.0;
  for (const Candidate& candidate : ordered) mass += weight(candidate.logit, top, temperature);
  const int64_t length = prefix_with_mass(ordered, top, temperature, share * mass);
  if (length > 0) ordered.resize(static_cast<size_t>(length));
}

void cut_to_share_of_top(std::vector<Candidate>& candidates, float top, double temperature, double share) {
  const auto rare = [&](const Candidate& c) { return weight(c.logit, top, temperature) < share; };
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(), rare), candidates.end());
}

}  // namespace verispec
