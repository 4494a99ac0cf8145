// The recording functions of Program.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "../runtime/program.hpp"
#include "bindings.hpp"

namespace nb = nanobind;

namespace verispec {
namespace {

using VectorPointer = std::shared_ptr<const Vector>;

BufferId attention(Program& program, BufferId q, BufferId k, BufferId v, std::shared_ptr<KvCache> cache,
                   int layer, int heads, float scale, int window, float softcap, int first, bool block) {
  return program.attention(q, k, v, std::move(cache), layer, {heads, window, scale, softcap, first}, block);
}

BufferId delta_rule(Program& program, BufferId qkv, BufferId beta, BufferId alpha, VectorPointer decay,
                    VectorPointer dt_bias, std::shared_ptr<StateCache> states, int layer, int key_heads,
                    int value_heads, int key_dim, int value_dim, float epsilon, bool grouped) {
  return program.delta_rule(qkv, beta, alpha, std::move(decay), std::move(dt_bias), std::move(states), layer,
                            {key_heads, value_heads, key_dim, value_dim, grouped, epsilon, nullptr, nullptr});
}

}  // namespace

void bind_recording(nb::class_<Program>& program) {
  program.def("input", &Program::input, nb::arg("width"))
      .def("embedding", &Program::embedding, nb::arg("table"), nb::arg("scale"))
      .def("linear", &Program::linear, nb::arg("x"), nb::arg("weights"),
           nb::arg("biases") = std::vector<VectorPointer>{})
      .def("rms_norm", &Program::rms_norm, nb::arg("x"), nb::arg("weight").none(), nb::arg("epsilon"),
           nb::arg("groups") = 1)
      .def("rope", &Program::rope, nb::arg("x"), nb::arg("heads"), nb::arg("table"))
      .def("attention", attention, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("cache"),
           nb::arg("layer"), nb::arg("heads"), nb::arg("scale"), nb::arg("window") = 0,
           nb::arg("softcap") = 0.0f, nb::arg("first") = 0, nb::arg("block") = false)
      .def("store_kv", &Program::store_kv, nb::arg("k"), nb::arg("v"), nb::arg("cache"), nb::arg("layer"))
      .def("convolution", &Program::convolution, nb::arg("x"), nb::arg("weight"), nb::arg("states"),
           nb::arg("layer"))
      .def("delta_rule", delta_rule, nb::arg("qkv"), nb::arg("beta"), nb::arg("alpha"), nb::arg("decay"),
           nb::arg("dt_bias"), nb::arg("states"), nb::arg("layer"), nb::arg("key_heads"),
           nb::arg("value_heads"), nb::arg("key_dim"), nb::arg("value_dim"), nb::arg("epsilon"),
           nb::arg("grouped") = false)
      .def("sigmoid_gate", &Program::sigmoid_gate, nb::arg("x"), nb::arg("gate"))
      .def("split", &Program::split, nb::arg("x"), nb::arg("widths"), nb::arg("groups") = 1)
      .def("concat", &Program::concat, nb::arg("parts"))
      .def("route", &Program::route, nb::arg("logits"), nb::arg("used"), nb::arg("normalise"))
      .def("expert_linear", &Program::expert_linear, nb::arg("x"), nb::arg("ids"), nb::arg("weight"))
      .def("expert_sum", &Program::expert_sum, nb::arg("x"), nb::arg("shares"))
      .def("add", &Program::add, nb::arg("a"), nb::arg("b"))
      .def("swiglu", &Program::swiglu, nb::arg("gate"), nb::arg("up"))
      .def("geglu", &Program::geglu, nb::arg("gate"), nb::arg("up"))
      .def("scale", &Program::scale, nb::arg("x"), nb::arg("factor"))
      .def("softcap", &Program::softcap, nb::arg("x"), nb::arg("cap"))
      .def("select_outputs", &Program::select_outputs, nb::arg("x"))
      .def("tap", &Program::tap, nb::arg("x"), nb::arg("name"))
      .def("output_head", &Program::output_head, nb::arg("x"), nb::arg("weight"),
           nb::arg("bias").none() = nb::none(), nb::arg("softcap") = 0.0f);
}

}  // namespace verispec
