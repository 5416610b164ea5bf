#include "packing/packer.hpp"

#include <algorithm>
#include <array>

#include "packing/algorithms.hpp"

namespace pgmo::packing {

std::span<const Packer> packers() {
  static constexpr std::array<Packer, 6> kPackers{{
      {"best-fit", best_fit},
      {"best-fit-area", best_fit_area},
      {"best-fit-size", best_fit_size},
      {"best-fit-start", best_fit_start},
      {"first-fit-size", first_fit_size},
      {"first-fit-lifetime", first_fit_lifetime},
  }};
  return kPackers;
}

const Packer* find_packer(std::string_view name) {
  for (const Packer& packer : packers()) {
    if (packer.name == name) return &packer;
  }
  return nullptr;
}

Offsets pack(const Packer& packer, const Ring& ring, const Stop& stop) {
  Offsets offsets = packer.pack(ring, stop);
  shelve_leftovers(ring, offsets);
  return offsets;
}

Bytes arena_of(const Ring& ring, const Offsets& offsets) {
  Bytes arena = 0;
  for (BlockId i = 0; i < ring.blocks(); ++i) arena = std::max(arena, offsets[i] + ring.size[i]);
  return arena;
}

}  // namespace pgmo::packing
