// The tile instructions of AMX that the linear layer uses, and the shapes of its tiles.
//
// Written out because GCC 12 moves its own intrinsics across stores that they depend on.
#pragma once

#include <cstdint>

namespace verispec::VERISPEC_ISA_NS {

constexpr int kTileSide = 16;  // rows of activations, and outputs, of one tile of sums

struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Registers 0..3 hold sums [16 rows][16 outputs], 4 and 5 activations [16 rows][32], 6 and 7 the codes of
// 16 outputs, 8 quads of 64 bytes.
inline TileShapes linear_tile_shapes() {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.row_bytes[i] = i == 4 || i == 5 ? 32 : 64;
    shapes.rows[i] = i < 6 ? kTileSide : 8;
  }
  return shapes;
}

inline void use_tiles(const TileShapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes) : "memory"); }
inline void release_tiles() { asm volatile("tilerelease" ::: "memory"); }

template <int kTile>
inline void load_tile(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
inline void store_tile(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
}

// Sums = activations (signed) times codes, signed or unsigned.
template <int kSums, int kActivations, int kCodes, bool kSignedCodes>
inline void multiply_tiles() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kSums) : "memory");
  if constexpr (kSignedCodes) {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kActivations), "i"(kCodes)
                 : "memory");
  } else {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kActivations), "i"(kCodes)
                 : "memory");
  }
}

}  // namespace verispec::VERISPEC_ISA_NS
