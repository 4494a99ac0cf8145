// Which instruction sets this CPU runs.
#pragma once

#include <string>
#include <vector>

#include "kernel_table.hpp"

namespace verispec {

// Names that select_kernels() accepts here, best first.
std::vector<std::string> available_kernels();

}  // namespace verispec
