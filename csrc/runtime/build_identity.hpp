// What a receipt needs to know about the native code that computed it.
#pragma once

#include <string>
#include <vector>

namespace verispec {

// Names the bits that the kernels produce. Change it whenever any kernel's result can differ by one bit.
inline constexpr const char* kArithmeticVersion = "1";

// Compiler and its version.
std::string compiler_identity();

// Instruction-set extensions of this CPU that kernels could use, best known names.
std::vector<std::string> cpu_features();

}  // namespace verispec
