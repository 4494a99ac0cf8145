#define VERISPEC_ISA_NS portable
#include "isa_table.hpp"

namespace verispec {

const KernelTable& kernels_portable() {
  static constexpr KernelTable table = portable::make_table("portable");
  return table;
}

}  // namespace verispec
