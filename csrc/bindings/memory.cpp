// ThreadPool, Workspace, KvCache, RopeTable and Vector.
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "../runtime/check.hpp"
#include "../runtime/kv_cache.hpp"
#include "../runtime/rope_tables.hpp"
#include "../runtime/thread_pool.hpp"
#include "../runtime/weights.hpp"
#include "../runtime/workspace.hpp"
#include "bindings.hpp"

namespace nb = nanobind;

namespace verispec {
namespace {

using FloatVector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using LayerTuple = std::tuple<int, int, int64_t>;

void make_cache(KvCache* place, int slots, int64_t positions, const std::vector<LayerTuple>& layers) {
  std::vector<KvCache::LayerShape> shapes;
  for (const auto& [kv_heads, head_dim, kept] : layers) shapes.push_back({kv_heads, head_dim, kept});
  new (place) KvCache(slots, positions, shapes);
}

nb::bytes save(KvCache& cache, int slot, int64_t begin, int64_t end) {
  const auto bytes = static_cast<Py_ssize_t>(cache.saved_bytes(begin, end));
  nb::bytes saved = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, bytes));
  if (!saved.is_valid()) throw nb::python_error();
  // Nobody else has the new object yet, so that it may be written without the interpreter lock.
  auto* to = reinterpret_cast<uint8_t*>(PyBytes_AsString(saved.ptr()));
  nb::gil_scoped_release release;
  cache.save(slot, begin, end, to);
  return saved;
}

void load(KvCache& cache, int slot, int64_t begin, int64_t end, const nb::bytes& saved) {
  require_equal("KV cache: bytes of the copied positions",
                static_cast<int64_t>(cache.saved_bytes(begin, end)), static_cast<int64_t>(saved.size()));
  const auto* from = static_cast<const uint8_t*>(saved.data());
  nb::gil_scoped_release release;
  cache.load(slot, begin, end, from);
}

void make_vector(Vector* place, const FloatVector& data) {
  new (place) Vector{std::vector<float>(data.data(), data.data() + data.size())};
}

}  // namespace

void bind_memory(nb::module_& m) {
  nb::class_<ThreadPool>(m, "ThreadPool")
      .def(nb::init<int>(), nb::arg("threads"))
      .def_prop_ro("threads", &ThreadPool::threads);

  nb::class_<Workspace>(m, "Workspace")
      .def(nb::init<>())
      .def_prop_ro("nbytes", [](const Workspace& workspace) {
        return workspace.memory() ? workspace.memory()->size() : 0;
      });

  nb::class_<Vector>(m, "Vector")
      .def("__init__", make_vector, nb::arg("data").noconvert())
      .def("__len__", &Vector::size);

  nb::class_<RopeTables>(m, "RopeTable")
      .def(nb::new_(&make_rope_tables), nb::arg("inverse_frequencies"), nb::arg("magnitude"),
           nb::arg("interleaved"), nb::arg("positions"))
      .def_ro("positions", &RopeTables::positions)
      .def_prop_ro("pairs", [](const RopeTables& tables) { return tables.table.pairs; });

  nb::class_<KvCache>(m, "KvCache")
      .def("__init__", make_cache, nb::arg("slots"), nb::arg("positions"), nb::arg("layers"))
      .def_prop_ro("slots", &KvCache::slots)
      .def_prop_ro("positions", &KvCache::positions)
      .def_prop_ro("layers", &KvCache::layers)
      .def_prop_ro("nbytes", &KvCache::bytes)
      .def_prop_ro("closed", &KvCache::closed)
      .def("kept", &KvCache::kept, nb::arg("layer"))
      .def("save", save, nb::arg("slot"), nb::arg("begin"), nb::arg("end"))
      .def("load", load, nb::arg("slot"), nb::arg("begin"), nb::arg("end"), nb::arg("saved"))
      .def("discard_slot", &KvCache::discard_slot, nb::arg("slot"))
      .def("close", &KvCache::close);
}

}  // namespace verispec
