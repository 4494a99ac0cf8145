#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "../drafting/suffix_automaton.hpp"
#include "bindings.hpp"

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
  nb::class_<SuffixAutomaton>(m, "SuffixAutomaton")
      .def(nb::init<>())
      .def("extend", &extend, "tokens"_a)
      .def("propose", &propose, "limit"_a, "min_match"_a, "min_confidence"_a)
      .def_static("confidence", &SuffixAutomaton::confidence_of, "count"_a, "total"_a, "match"_a)
      .def("__len__", &SuffixAutomaton::size)
      .def_prop_ro("states", &SuffixAutomaton::states);
}

}  // namespace verispec
