#include "rope_tables.hpp"

#include "../sampling/scalar_math.hpp"
#include "check.hpp"

namespace verispec {

namespace {
constexpr double kGreatestAngle = 0x1p20;  // what exact_sine_cosine takes
}

std::shared_ptr<RopeTables> make_rope_tables(const std::vector<double>& inverse_frequencies, double magnitude,
                                             bool interleaved, int64_t positions) {
  const int64_t pairs = static_cast<int64_t>(inverse_frequencies.size());
  require_range("rotary embedding: pairs", pairs, 1, kMaxHeadDim / 2);
  require_range("rotary embedding: positions", positions, 1, int64_t{1} << 31);
  const double greatest = kGreatestAngle / static_cast<double>(positions);
  for (double frequency : inverse_frequencies)
    require(frequency >= 0.0 && frequency <= greatest,
            "rotary embedding: inverse frequencies for " + std::to_string(positions) +
                " positions: expected 0 to " + std::to_string(greatest) + ", found " +
                std::to_string(frequency));
  auto tables = std::make_shared<RopeTables>();
  tables->positions = positions;
  tables->cos.reserve(positions * pairs);
  tables->sin.reserve(positions * pairs);
  for (int64_t position = 0; position < positions; ++position) {
    for (double frequency : inverse_frequencies) {
      const SineCosine turn = exact_sine_cosine(static_cast<double>(position) * frequency);
      tables->cos.push_back(static_cast<float>(turn.cosine * magnitude));
      tables->sin.push_back(static_cast<float>(turn.sine * magnitude));
    }
  }
  tables->table = {tables->cos.data(), tables->sin.data(), static_cast<int>(pairs), interleaved};
  return tables;
}

}  // namespace verispec
