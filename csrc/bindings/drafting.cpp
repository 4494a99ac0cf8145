#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "../drafting/suffix_automaton.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace verispec {

namespace {

void extend(SuffixAutomaton& self, const std::vector<int32_t>& tokens) {
  for (int32_t token : tokens) self.append(token);
}

auto propose(const SuffixAutomaton& self, size_t limit, int32_t min_match, double min_confidence) {
  SuffixAutomaton::Chain chain = self.propose(limit, min_match, min_confidence);
  return std::make_tuple(std::move(chain.tokens), std::move(chain.confidences), chain.match);
}

}  // namespace

void bind_drafting(nb::module_& m) {
  nb::class_<SuffixAutomaton>(
      m, "SuffixAutomaton",
      "Online suffix automaton over token ids (int32): the longest suffix of the text that "
      "occurred before, and what followed it most often.")
      .def(nb::init<>())
      .def("extend", &extend, "tokens"_a, "Append token ids in order.")
      .def("truncate", &SuffixAutomaton::truncate, "length"_a, "Forget all but the first `length` tokens.")
      .def("propose", &propose, "limit"_a, "min_match"_a, "min_confidence"_a,
           "(tokens, confidences, length of the match): at most `limit` tokens that followed the longest "
           "earlier "
           "occurrence of the text's end, while each has at least `min_confidence`; the match counts 0 when "
           "it is "
           "no token long.")
      .def_static(
          "confidence", &SuffixAutomaton::confidence, "count"_a, "total"_a, "match"_a,
          "Estimated probability that a continuation seen `count` times of `total` after a match of `match` "
          "tokens follows again.")
      .def("__len__", &SuffixAutomaton::size)
      .def_prop_ro("states", &SuffixAutomaton::states, "States held, at most two for each token.");
}

}  // namespace verispec
