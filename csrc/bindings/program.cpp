// Program: run, and views of the results.
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

void make_program(Program* place, std::shared_ptr<ThreadPool> pool, std::shared_ptr<Workspace> workspace,
                  int rows, int outputs, bool logits, const std::optional<std::string>& isa) {
  new (place) Program(std::move(pool), std::move(workspace), select_kernels(isa ? isa->c_str() : nullptr),
                      rows, outputs, logits);
}

const int32_t* checked_ids(const char* what, const Ids& ids, int expected) {
  require_equal(std::string("run: number of ") + what, expected, static_cast<int64_t>(ids.size()));
  return ids.data();
}

std::vector<const float*> checked_buffers(const Program& program, const std::vector<Rows>& inputs) {
  const std::vector<int64_t>& widths = program.input_widths();
  require_equal("run: number of inputs", static_cast<int64_t>(widths.size()),
                static_cast<int64_t>(inputs.size()));
  std::vector<const float*> buffers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string where = "run: input " + std::to_string(i);
    require_equal(where + ": rows", program.rows(), static_cast<int64_t>(inputs[i].shape(0)));
    require_equal(where + ": width", widths[i], static_cast<int64_t>(inputs[i].shape(1)));
    buffers.push_back(inputs[i].data());
  }
  return buffers;
}

// The columns of a run as arrays, one entry a row.
struct Columns {
  Ids tokens, positions, slots, output_rows;
  std::optional<Ids> state_from, state_to;
};

PassInputs checked_inputs(const Program& program, const Columns& columns, const std::vector<Rows>& inputs) {
  const auto of_rows = [&program](const char* what, const Ids& ids) {
    return checked_ids(what, ids, program.rows());
  };
  return {of_rows("tokens", columns.tokens),
          of_rows("positions", columns.positions),
          of_rows("slots", columns.slots),
          checked_ids("output rows", columns.output_rows, program.outputs()),
          checked_buffers(program, inputs),
          columns.state_from ? of_rows("state_from", *columns.state_from) : nullptr,
          columns.state_to ? of_rows("state_to", *columns.state_to) : nullptr};
}

void run(Program& program, const Ids& tokens, const Ids& positions, const Ids& slots, const Ids& output_rows,
         const std::vector<Rows>& inputs, const std::optional<Ids>& state_from,
         const std::optional<Ids>& state_to) {
  const PassInputs pass =
      checked_inputs(program, {tokens, positions, slots, output_rows, state_from, state_to}, inputs);
  nb::gil_scoped_release release;
  program.run(pass);
}

std::vector<double> time_phases(Program& program, const Ids& tokens, const Ids& positions, const Ids& slots,
                                const Ids& output_rows, const std::vector<Rows>& inputs,
                                const std::optional<Ids>& state_from, const std::optional<Ids>& state_to) {
  const PassInputs pass =
      checked_inputs(program, {tokens, positions, slots, output_rows, state_from, state_to}, inputs);
  nb::gil_scoped_release release;
  return program.time_phases(pass);
}

// One row as the engine has it: sequence, position, token, parent.
using Row = std::array<int32_t, 4>;
using Places = std::optional<std::vector<int32_t>>;

const int32_t* checked_places(const char* what, const Places& places, int rows) {
  if (!places) return nullptr;
  require_equal(std::string("evaluate: number of ") + what, rows, static_cast<int64_t>(places->size()));
  return places->data();
}

// The same for a program of one chain a sequence, from rows as they are: an evaluation a token makes every
// conversion on the way count.
std::vector<int32_t> evaluate(Program& program, const std::vector<Row>& rows,
                              const std::vector<int32_t>& output_rows, const Places& state_from,
                              const Places& state_to, const std::vector<Rows>& inputs) {
  require_equal("evaluate: number of rows", program.rows(), static_cast<int64_t>(rows.size()));
  require_equal("evaluate: number of output rows", program.outputs(),
                static_cast<int64_t>(output_rows.size()));
  std::vector<int32_t> columns(3 * rows.size());
  int32_t *tokens = columns.data(), *positions = tokens + rows.size(), *slots = positions + rows.size();
  for (size_t i = 0; i < rows.size(); ++i) {
    slots[i] = rows[i][0];
    positions[i] = rows[i][1];
    tokens[i] = rows[i][2];
  }
  const PassInputs pass = {tokens,
                           positions,
                           slots,
                           output_rows.data(),
                           checked_buffers(program, inputs),
                           checked_places("state_from", state_from, program.rows()),
                           checked_places("state_to", state_to, program.rows())};
  nb::gil_scoped_release release;
  program.run(pass);
  return program.argmax();
}

RowsView to_numpy(const Program::View& view) {
  auto* keeper = new std::shared_ptr<const Memory>(view.memory);
  nb::capsule owner(keeper, [](void* p) noexcept { delete static_cast<std::shared_ptr<const Memory>*>(p); });
  return RowsView(view.data, {static_cast<size_t>(view.rows), static_cast<size_t>(view.width)}, owner);
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
           nb::arg("inputs").noconvert() = std::vector<Rows>{},
           nb::arg("state_from").noconvert().none() = nb::none(),
           nb::arg("state_to").noconvert().none() = nb::none())
      .def("evaluate", evaluate, nb::arg("rows"), nb::arg("output_rows"),
           nb::arg("state_from").none() = nb::none(), nb::arg("state_to").none() = nb::none(),
           nb::arg("inputs").noconvert() = std::vector<Rows>{})
      .def("time_phases", time_phases, nb::arg("tokens").noconvert(), nb::arg("positions").noconvert(),
           nb::arg("slots").noconvert(), nb::arg("output_rows").noconvert(),
           nb::arg("inputs").noconvert() = std::vector<Rows>{},
           nb::arg("state_from").noconvert().none() = nb::none(),
           nb::arg("state_to").noconvert().none() = nb::none())
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
