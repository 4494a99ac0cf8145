// AVX-512 with the linear layer's larger passes on AMX.
#if defined(__AMX_INT8__) && defined(__AVX512VNNI__)
#define VERISPEC_ISA_NS amx
#include "linear_amx.hpp"

namespace verispec {

const KernelTable& kernels_amx() {
  static const KernelTable table = [] {
    KernelTable table = kernels_avx512();
    table.name = "amx";
    table.linear = amx::linear;
    return table;
  }();
  return table;
}

}  // namespace verispec
#endif
