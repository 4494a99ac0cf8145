#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define VERISPEC_ISA_NS avx2
#include "isa_table.hpp"

namespace verispec {

const KernelTable& kernels_avx2() {
  static constexpr KernelTable table = avx2::make_table("avx2");
  return table;
}

}  // namespace verispec
#endif
