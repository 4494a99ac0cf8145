// Chooses the kernels of an instruction set at run time.
#include "dispatch.hpp"

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

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

// The tile registers are a process's only after it has asked for them.
bool ask_for_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_amx() {
  static const bool granted = has_avx512() && __builtin_cpu_supports("amx-tile") &&
                              __builtin_cpu_supports("amx-int8") && ask_for_tiles();
  return granted;
}
#endif

// Best first.
const Choice kChoices[] = {
#if defined(__x86_64__)
    {"amx", has_amx, kernels_amx},
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
