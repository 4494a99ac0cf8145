// Weights and Matrix.
#include "../runtime/weights.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "bindings.hpp"

namespace nb = nanobind;

namespace verispec {
namespace {

constexpr const char* kTypeNames[] = {"F32",  "F16",  "BF16", "Q8_0", "Q4_0", "Q4_1",
                                      "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"};

WeightType type_named(const std::string& name) {
  std::string known;
  for (int i = 0; i < static_cast<int>(std::size(kTypeNames)); ++i) {
    if (name == kTypeNames[i]) return static_cast<WeightType>(i);
    known += (i ? ", " : "") + std::string(kTypeNames[i]);
  }
  throw std::invalid_argument("matrix: type: expected one of " + known + ", found '" + name + "'");
}

using FileBytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::shared_ptr<const Matrix> pack(Weights& weights, const std::string& type, int64_t outputs, int64_t inputs,
                                   const FileBytes& data, ThreadPool& pool) {
  const WeightType parsed = type_named(type);
  nb::gil_scoped_release release;
  return weights.pack(parsed, outputs, inputs, data.data(), data.size(), pool);
}

std::shared_ptr<const Experts> pack_experts(Weights& weights, const std::string& type, int experts,
                                            int64_t outputs, int64_t inputs, const FileBytes& data,
                                            ThreadPool& pool) {
  const WeightType parsed = type_named(type);
  nb::gil_scoped_release release;
  return weights.pack_experts(parsed, experts, outputs, inputs, data.data(), data.size(), pool);
}

const char* type_name(const PackedMatrix& matrix) { return kTypeNames[static_cast<int>(matrix.type)]; }

}  // namespace

void bind_weights(nb::module_& m) {
  nb::class_<Matrix>(m, "Matrix")
      .def_prop_ro("type", [](const Matrix& matrix) { return type_name(matrix.packed); })
      .def_prop_ro("outputs", [](const Matrix& matrix) { return matrix.packed.n; })
      .def_prop_ro("inputs", [](const Matrix& matrix) { return matrix.packed.k; })
      .def_prop_ro("nbytes", [](const Matrix& matrix) { return matrix.packed.bytes; })
      .def("first_rows", first_rows, nb::arg("n"));

  nb::class_<Experts>(m, "Experts")
      .def_prop_ro("type", [](const Experts& experts) { return type_name(experts.first); })
      .def_prop_ro("experts", [](const Experts& experts) { return experts.count; })
      .def_prop_ro("outputs", [](const Experts& experts) { return experts.first.n; })
      .def_prop_ro("inputs", [](const Experts& experts) { return experts.first.k; })
      .def_prop_ro("nbytes", [](const Experts& experts) { return experts.first.bytes * experts.count; });

  nb::class_<Weights>(m, "Weights")
      .def(nb::init<size_t>(), nb::arg("capacity"))
      .def_static(
          "packed_size",
          [](const std::string& type, int64_t outputs, int64_t inputs) {
            return Weights::packed_size(type_named(type), outputs, inputs);
          },
          nb::arg("kind"), nb::arg("outputs"), nb::arg("inputs"))
      .def("pack", pack, nb::arg("kind"), nb::arg("outputs"), nb::arg("inputs"), nb::arg("data").noconvert(),
           nb::arg("pool"))
      .def("pack_experts", pack_experts, nb::arg("kind"), nb::arg("experts"), nb::arg("outputs"),
           nb::arg("inputs"), nb::arg("data").noconvert(), nb::arg("pool"))
      .def_prop_ro("used", &Weights::used);
}

}  // namespace verispec
