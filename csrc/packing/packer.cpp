#include "packing/packer.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "packing/greedy/skyline.hpp"

namespace pgmo::packing {
namespace {

Tick lifetime(const Ring& ring, BlockId block) {
  return ring.lifetime[block];
}

// Return size times lifetime, as a double, because products may exceed 2^63.
double area(const Ring& ring, BlockId block) {
  return static_cast<double>(ring.size[block]) * static_cast<double>(ring.lifetime[block]);
}

Bytes size(const Ring& ring, BlockId block) {
  return ring.size[block];
}

Tick earliness(const Ring& ring, BlockId block) {
  return -ring.begin[block];
}

// Sort blocks by falling key. Ties are broken by lifetime, size and times, so that the order
// depends on the blocks alone; only identical blocks are ordered by number.
template <auto key>
std::vector<BlockId> by_falling(const Ring& ring) {
  std::vector<BlockId> order(ring.size.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](BlockId a, BlockId b) {
    if (const auto x = key(ring, a), y = key(ring, b); x != y) return x > y;
    if (ring.lifetime[a] != ring.lifetime[b]) return ring.lifetime[a] > ring.lifetime[b];
    if (ring.size[a] != ring.size[b]) return ring.size[a] > ring.size[b];
    if (ring.begin[a] != ring.begin[b]) return ring.begin[a] < ring.begin[b];
    if (ring.end[a] != ring.end[b]) return ring.end[a] < ring.end[b];
    return a < b;
  });
  return order;
}

// Stack the blocks that have no offset yet above all others.
void stack_rest(const Ring& ring, Offsets& offsets) {
  Offset top = arena_of(ring, offsets);
  for (BlockId block = 0; block < ring.blocks(); ++block) {
    if (offsets[block] != kUnplanned) continue;
    offsets[block] = top;
    top += ring.size[block];
  }
}

}  // namespace

// "best-fit" is the heuristic of Sekiyama et al. 2018, "Profile-guided memory optimization for deep
// neural networks" (arXiv 1804.10001), section 3.2: it places the block with the longest lifetime
// on the lowest line. The other packers prefer the largest area, which closes some gaps; the
// largest block, which is better if few blocks determine the peak; or the earliest request.
std::span<const Packer> packers() {
  static constexpr std::array<Packer, 4> kPackers{{
      {"best-fit", by_falling<lifetime>},
      {"best-fit-area", by_falling<area>},
      {"best-fit-size", by_falling<size>},
      {"best-fit-start", by_falling<earliness>},
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
  SkylinePacker skyline(ring, stop);
  skyline.fill(packer.order(ring));
  Offsets offsets = skyline.offsets();
  stack_rest(ring, offsets);
  return offsets;
}

Bytes arena_of(const Ring& ring, const Offsets& offsets) {
  Bytes arena = 0;
  for (BlockId i = 0; i < ring.blocks(); ++i) {
    if (offsets[i] != kUnplanned) arena = std::max(arena, offsets[i] + ring.size[i]);
  }
  return arena;
}

}  // namespace pgmo::packing
