#if defined(__AVX512F__) && defined(__AVX512VNNI__)
#define VERISPEC_ISA_NS avx512
#include "isa_table.hpp"

namespace verispec {

const KernelTable& kernels_avx512() {
  static constexpr KernelTable table = avx512::make_table("avx512");
  return table;
}

}  // namespace verispec
#endif
