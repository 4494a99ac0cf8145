// StateCache.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "../runtime/check.hpp"
#include "../runtime/state_cache.hpp"
#include "bindings.hpp"

namespace nb = nanobind;

namespace verispec {
namespace {

using LayerTuple = std::tuple<int64_t, int64_t>;

void make_states(StateCache* place, int places, const std::vector<LayerTuple>& layers) {
  std::vector<StateCache::LayerShape> shapes;
  for (const auto& [convolution, recurrent] : layers) shapes.push_back({convolution, recurrent});
  new (place) StateCache(places, std::move(shapes));
}

nb::bytes save(StateCache& states, int place) {
  nb::bytes saved =
      nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(states.saved_bytes())));
  if (!saved.is_valid()) throw nb::python_error();
  // Nobody else has the new object yet, so that it may be written without the interpreter lock.
  auto* to = reinterpret_cast<uint8_t*>(PyBytes_AsString(saved.ptr()));
  nb::gil_scoped_release release;
  states.save(place, to);
  return saved;
}

void load(StateCache& states, int place, const nb::bytes& saved) {
  require_equal("state cache: bytes of a place", static_cast<int64_t>(states.saved_bytes()),
                static_cast<int64_t>(saved.size()));
  const auto* from = static_cast<const uint8_t*>(saved.data());
  nb::gil_scoped_release release;
  states.load(place, from);
}

}  // namespace

void bind_states(nb::module_& m) {
  nb::class_<StateCache>(m, "StateCache")
      .def("__init__", make_states, nb::arg("places"), nb::arg("layers"))
      .def_prop_ro("places", &StateCache::places)
      .def_prop_ro("layers", &StateCache::layers)
      .def_prop_ro("bytes", &StateCache::bytes)
      .def_prop_ro("saved_bytes", &StateCache::saved_bytes)
      .def_prop_ro("closed", &StateCache::closed)
      .def("save", save, nb::arg("place"))
      .def("load", load, nb::arg("place"), nb::arg("saved"))
      .def("discard", &StateCache::discard, nb::arg("place"))
      .def("close", &StateCache::close);
}

}  // namespace verispec
