// SamplingParameters, Sampler and TokenHistory; noise and log-probabilities as functions.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "../sampling/noise.hpp"
#include "../sampling/sampler.hpp"
#include "bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace verispec {
namespace {

using Logits = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using IsaName = std::optional<std::string>;

const KernelTable& kernels_named(const IsaName& isa) { return select_kernels(isa ? isa->c_str() : nullptr); }

void make_sampler(Sampler* place, double temperature, int64_t top_k, double top_p, double min_p,
                  double repetition_penalty, double presence_penalty, double frequency_penalty,
                  std::vector<std::pair<int32_t, double>> logit_bias, uint64_t seed, uint64_t choice,
                  const IsaName& isa) {
  new (place)
      Sampler(kernels_named(isa), {temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty,
                                   frequency_penalty, std::move(logit_bias), seed, choice});
}

int32_t choose(Sampler& sampler, const Logits& logits, uint64_t position, const TokenHistory* history,
               const std::optional<Words>& allowed) {
  static const TokenHistory empty({});
  const size_t words = (logits.size() + 31) / 32;
  if (allowed && allowed->size() != words)
    throw std::invalid_argument("allowed: expected " + std::to_string(words) + " words, found " +
                                std::to_string(allowed->size()));
  return sampler.choose(logits.data(), static_cast<int64_t>(logits.size()), position,
                        history ? *history : empty, allowed ? allowed->data() : nullptr);
}

using Scored = std::pair<int32_t, double>;

std::pair<double, std::vector<Scored>> score(const Logits& logits, int32_t token, int64_t alternatives,
                                             const IsaName& isa) {
  const LogProbabilities found = log_probabilities(kernels_named(isa), logits.data(),
                                                   static_cast<int64_t>(logits.size()), token, alternatives);
  std::vector<Scored> scored;
  for (const ScoredToken& alternative : found.alternatives)
    scored.emplace_back(alternative.token, alternative.logprob);
  return {found.chosen, std::move(scored)};
}

}  // namespace

void bind_sampling(nb::module_& m) {
  nb::class_<TokenHistory>(m, "TokenHistory")
      .def(nb::init<const std::vector<int32_t>&>(), "prompt"_a)
      .def("append", &TokenHistory::append, "tokens"_a)
      .def("truncate", &TokenHistory::truncate, "length"_a)
      .def("__len__", &TokenHistory::output_length);

  nb::class_<Sampler>(m, "Sampler")
      .def("__init__", make_sampler, nb::kw_only(), "temperature"_a = 1.0, "top_k"_a = 0, "top_p"_a = 1.0,
           "min_p"_a = 0.0, "repetition_penalty"_a = 1.0, "presence_penalty"_a = 0.0,
           "frequency_penalty"_a = 0.0, "logit_bias"_a = std::vector<Scored>{}, "seed"_a = 0, "choice"_a = 0,
           "isa"_a.none() = nb::none())
      .def("choose", choose, "logits"_a.noconvert(), "position"_a, "history"_a.none() = nb::none(),
           "allowed"_a.noconvert().none() = nb::none());

  m.def("log_probabilities", score, "logits"_a.noconvert(), "token"_a, "alternatives"_a = 0,
        "isa"_a.none() = nb::none());
  m.def("gumbel", gumbel, "seed"_a, "choice"_a, "position"_a, "token"_a);
}

}  // namespace verispec
