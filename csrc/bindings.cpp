// The Python module verispec._native.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

NB_MODULE(_native, m) { m.attr("arithmetic_version") = "1"; }
