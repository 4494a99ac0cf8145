// The Python module verispec._native. Its types are described in src/verispec/_native.pyi.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "../kernels/dispatch.hpp"
#include "../runtime/build_identity.hpp"
#include "bindings.hpp"

namespace nb = nanobind;

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // objects that live until the interpreter exits are no leak
  m.attr("arithmetic_version") = verispec::kArithmeticVersion;
  m.def("compiler", verispec::compiler_identity);
  m.def("cpu_features", verispec::cpu_features);
  m.def("available_isas", verispec::available_kernels);
  m.def(
      "resolve_isa",
      [](const std::optional<std::string>& name) {
        return std::string(verispec::select_kernels(name ? name->c_str() : nullptr).name);
      },
      nb::arg("name").none() = nb::none());
  verispec::bind_memory(m);
  verispec::bind_weights(m);
  verispec::bind_states(m);
  verispec::bind_program(m);
  verispec::bind_drafting(m);
  verispec::bind_sampling(m);
  verispec::bind_measure(m);
}
