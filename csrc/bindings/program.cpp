// Program: recording functions, run, and views of the results.
#include "../runtime/program.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "../runtime/check.hpp"
#include "bindings.hpp"

namespace nb = nanobind;

namespace verispec {
namespace {

using Ids = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using RowsView = nb::ndarray<nb::numpy, const float, nb::ndim<2>>;
using MatrixPointer = std::shared_ptr<const Matrix>;
using VectorPointer = std::shared_ptr<const Vector>;

void make_program(Program* place, std::shared_ptr<ThreadPool> pool, std::shared_ptr<Workspace> workspace,
                  int rows, int outputs, bool logits, const std::optional<std::string>& isa) {
  new (place) Program(std::move(pool), std::move(workspace), select_kernels(isa ? isa->c_str() : nullptr),
                      rows, outputs, logits);
}

const int32_t* checked_ids(const char* what, const Ids& ids, int expected) {
  require_equal(std::string("run: number of ") + what, expected, static_cast<int64_t>(ids.size()));
  return ids.data();
}

PassInputs checked_inputs(const Program& program, const Ids& tokens, const Ids& positions, const Ids& slots,
                          const Ids& output_rows, const std::vector<Rows>& inputs) {
  PassInputs pass = {checked_ids("tokens", tokens, program.rows()),
                     checked_ids("positions", positions, program.rows()),
                     checked_ids("slots", slots, program.rows()),
                     checked_ids("output rows", output_rows, program.outputs()),
                     {}};
  const std::vector<int64_t>& widths = program.input_widths();
  require_equal("run: number of inputs", static_cast<int64_t>(widths.size()),
                static_cast<int64_t>(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string where = "run: input " + std::to_string(i);
    require_equal(where + ": rows", program.rows(), static_cast<int64_t>(inputs[i].shape(0)));
    require_equal(where + ": width", widths[i], static_cast<int64_t>(inputs[i].shape(1)));
    pass.buffers.push_back(inputs[i].data());
  }
  return pass;
}

void run(Program& program, const Ids& tokens, const Ids& positions, const Ids& slots, const Ids& output_rows,
         const std::vector<Rows>& inputs) {
  const PassInputs pass = checked_inputs(program, tokens, positions, slots, output_rows, inputs);
  nb::gil_scoped_release release;
  program.run(pass);
}

// One row as the engine has it: sequence, position, token, parent.
using Row = std::array<int32_t, 4>;

// The same for a program of one chain a sequence, from rows as they are: an evaluation a token makes every
// conversion on the way count.
std::vector<int32_t> evaluate(Program& program, const std::vector<Row>& rows,
                              const std::vector<int32_t>& output_rows) {
  require_equal("evaluate: number of rows", program.rows(), static_cast<int64_t>(rows.size()));
  require_equal("evaluate: number of output rows", program.outputs(),
                static_cast<int64_t>(output_rows.size()));
  require_equal("evaluate: number of inputs", 0, static_cast<int64_t>(program.input_widths().size()));
  std::vector<int32_t> columns(3 * rows.size());
  int32_t *tokens = columns.data(), *positions = tokens + rows.size(), *slots = positions + rows.size();
  for (size_t i = 0; i < rows.size(); ++i) {
    slots[i] = rows[i][0];
    positions[i] = rows[i][1];
    tokens[i] = rows[i][2];
  }
  nb::gil_scoped_release release;
  program.run({tokens, positions, slots, output_rows.data(), {}});
  return program.argmax();
}

std::vector<double> time_phases(Program& program, const Ids& tokens, const Ids& positions, const Ids& slots,
                                const Ids& output_rows, const std::vector<Rows>& inputs) {
  const PassInputs pass = checked_inputs(program, tokens, positions, slots, output_rows, inputs);
  nb::gil_scoped_release release;
  return program.time_phases(pass);
}

RowsView to_numpy(const Program::View& view) {
  auto* keeper = new std::shared_ptr<const Memory>(view.memory);
  nb::capsule owner(keeper, [](void* p) noexcept { delete static_cast<std::shared_ptr<const Memory>*>(p); });
  return RowsView(view.data, {static_cast<size_t>(view.rows), static_cast<size_t>(view.width)}, owner);
}

BufferId attention(Program& program, BufferId q, BufferId k, BufferId v, std::shared_ptr<KvCache> cache,
                   int layer, int heads, float scale, int window, float softcap) {
  return program.attention(q, k, v, std::move(cache), layer, {heads, window, scale, softcap});
}

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
           nb::arg("softcap") = 0.0f)
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

}  // namespace

void bind_program(nb::module_& m) {
  nb::class_<Program> program(m, "Program");
  program.def("__init__", make_program, nb::arg("pool"), nb::arg("workspace"), nb::arg("rows"),
              nb::arg("outputs"), nb::arg("logits") = false, nb::arg("isa").none() = nb::none());
  bind_recording(program);
  program.def("finish", &Program::finish)
      .def("run", run, nb::arg("tokens").noconvert(), nb::arg("positions").noconvert(),
           nb::arg("slots").noconvert(), nb::arg("output_rows").noconvert(),
           nb::arg("inputs") = std::vector<Rows>{})
      .def("evaluate", evaluate, nb::arg("rows"), nb::arg("output_rows"))
      .def("time_phases", time_phases, nb::arg("tokens").noconvert(), nb::arg("positions").noconvert(),
           nb::arg("slots").noconvert(), nb::arg("output_rows").noconvert(),
           nb::arg("inputs") = std::vector<Rows>{})
      .def_prop_ro("argmax", &Program::argmax)
      .def("logits", [](const Program& p) { return to_numpy(p.logits()); })
      .def(
          "hidden", [](const Program& p, int name) { return to_numpy(p.hidden(name)); }, nb::arg("name"))
      .def_prop_ro("rows", &Program::rows)
      .def_prop_ro("outputs", &Program::outputs)
      .def_prop_ro("isa", [](const Program& p) { return p.kernels().name; })
      .def_prop_ro("workspace_bytes", &Program::workspace_bytes)
      .def("phases", &Program::describe);
}

}  // namespace verispec
