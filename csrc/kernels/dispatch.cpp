// Chooses the kernels of an instruction set at run time.
#include "dispatch.hpp"

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace verispec {
namespace {

struct Choice {
  const char* name;
  bool (*runs_here)();
  const KernelTable& (*table)();
};

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

// Best first.
const Choice kChoices[] = {
#if defined(__x86_64__)
    {"avx512", has_avx512, kernels_avx512},
    {"avx2", has_avx2, kernels_avx2},
#endif
    {"portable", [] { return true; }, kernels_portable},
};

}  // namespace

std::vector<std::string> available_kernels() {
  std::vector<std::string> names;
  for (const Choice& choice : kChoices) {
    if (choice.runs_here()) names.push_back(choice.name);
  }
  return names;
}

const KernelTable& select_kernels(const char* name) {
  const char* source = "isa";
  if (!name) {
    name = std::getenv("VERISPEC_ISA");
    if (name && !*name) name = nullptr;
    source = "VERISPEC_ISA";
  }
  std::string available;
  for (const Choice& choice : kChoices) {
    if (!choice.runs_here()) continue;
    if (!name || std::strcmp(name, choice.name) == 0) return choice.table();
    available += (available.empty() ? "" : ", ") + std::string(choice.name);
  }
  throw std::invalid_argument(std::string(source) + ": expected an instruction set of this CPU (" +
                              available + "), found '" + name + "'");
}

}  // namespace verispec
