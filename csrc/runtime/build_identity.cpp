#include "build_identity.hpp"

namespace verispec {

std::string compiler_identity() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

std::vector<std::string> cpu_features() {
  std::vector<std::string> features;
#if defined(__x86_64__)
  const auto note = [&features](const char* name, bool present) {
    if (present) features.push_back(name);
  };
  note("avx2", __builtin_cpu_supports("avx2"));
  note("fma", __builtin_cpu_supports("fma"));
  note("f16c", __builtin_cpu_supports("f16c"));
  note("avx512f", __builtin_cpu_supports("avx512f"));
  note("avx512bw", __builtin_cpu_supports("avx512bw"));
  note("avx512vl", __builtin_cpu_supports("avx512vl"));
  note("avx512dq", __builtin_cpu_supports("avx512dq"));
  note("avx512vnni", __builtin_cpu_supports("avx512vnni"));
#endif
  return features;
}

}  // namespace verispec
