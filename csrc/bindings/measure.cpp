// ReadStream.
#include "../runtime/read_stream.hpp"
#include "bindings.hpp"

namespace nb = nanobind;

namespace verispec {

void bind_measure(nb::module_& m) {
  nb::class_<ReadStream>(m, "ReadStream")
      .def(nb::init<size_t>(), nb::arg("nbytes"))
      .def_prop_ro("nbytes", &ReadStream::bytes)
      .def("read", &ReadStream::read, nb::arg("pool"), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace verispec
