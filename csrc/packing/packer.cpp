#include "packing/packer.hpp"

#include <algorithm>
#include <array>

#include "packing/greedy/occupancy.hpp"
#include "packing/greedy/preference.hpp"
#include "packing/greedy/skyline.hpp"

namespace pgmo::packing {
namespace {

Tick lifetime(const Ring& ring, BlockId block) {
  return ring.lifetime[block];
}
Bytes size(const Ring& ring, BlockId block) {
  return ring.size[block];
}
Tick earliness(const Ring& ring, BlockId block) {
  return -ring.begin[block];
}

template <auto key>
Offsets best_fit(const Ring& ring, const Stop& stop) {
  return fill_skyline(ring, stop,
                      by_falling(ring, [&](BlockId block) { return key(ring, block); }));
}

template <auto key, Arrival arrival>
Offsets first_fit(const Ring& ring, const Stop& stop) {
  return fill_first_fit(ring, stop,
                        by_falling(ring, [&](BlockId block) { return key(ring, block); }), arrival);
}

}  // namespace

// "best-fit" is the heuristic of Sekiyama et al. 2018, "Profile-guided memory optimization for deep
// neural networks" (arXiv 1804.10001), section 3.2: on the lowest line, the longest lifetime. The
// others of its kind prefer the largest area there, which closes some gaps; the largest block,
// which is better where a few make the peak; or the earliest request.
std::span<const Packer> packers() {
  static constexpr std::array<Packer, 6> kPackers{{
      {"best-fit", best_fit<lifetime>},
      {"best-fit-area", best_fit<area>},
      {"best-fit-size", best_fit<size>},
      {"best-fit-start", best_fit<earliness>},
      {"first-fit-size", first_fit<size, Arrival::kAny>},
      {"first-fit-lifetime", first_fit<lifetime, Arrival::kFallingLifetime>},
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
