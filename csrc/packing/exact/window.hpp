// The parts of a problem that need a search, after all easy blocks are removed.
//
//   b  |====|                    Only the ticks with more live blocks than their neighbours
//   l     |=====|                matter: the sections. Lifetimes become ranges of sections,
//   o        |====|  |===|       many of them equal. Blocks alive in all sections of a part
//   c  |==|     |========|       conflict with all its other blocks: they form the base below it.
//   k          ^ ^       ^       A part ends where no lifetime continues.
//   s     sections 0 1    2
//
// This reduction does not change the smallest arena. Two blocks that interfere are both alive in
// some section. A block that interferes with all others can be moved below them in any packing. A
// block that always finds a gap below the lower bound never determines the arena. Blocks of equal
// lifetimes are not merged, because other blocks may have to lie between them. Instead, the search
// places blocks of equal lifetimes in one order.

#pragma once

#include <vector>

#include "packing/packer.hpp"

namespace pgmo::packing {

// Blocks that are packed separately, because they interfere with no other blocks except the base. A
// wrapping lifetime has an end beyond the last section.
struct Window {
  std::vector<BlockId> block;    // number in the ring
  std::vector<Bytes> size;       // in units, like all sizes and offsets of a window
  std::vector<Rank> begin, end;  // [begin, end) in sections, begin < sections
  std::vector<Tick> lifetime;    // in the problem's own ticks
  Rank sections = 0;
  Bytes base = 0;  // bytes of the base below the window
  Bytes unit = 1;  // bytes: the greatest common divisor of all sizes of the problem
  Bytes load = 0;  // largest sum of sizes in a section

  BlockId blocks() const { return static_cast<BlockId>(block.size()); }
  Bytes bytes(Offset units) const { return base + units * unit; }
};

struct Reduction {
  std::vector<Window> windows;
  Offsets offsets;              // of blocks in a base; kUnplanned for all other blocks
  std::vector<BlockId> spared;  // blocks that fit in any packing of the other blocks
  Bytes arena = 0;              // bytes needed by the bases
};

// Blocks are spared only in problems of at most this many blocks. Reason: each better packing has
// to place the spared blocks again, among all blocks that interfere with them.
constexpr BlockId kSpareUpTo = 20'000;

// Reduce a problem to windows. Spared blocks fit below `bound`, a lower bound of the arena.
Reduction reduce(const Ring& ring, Bytes bound);

// Add the spared blocks to the offsets, each at its lowest free offset.
void restore(const Ring& ring, const Reduction& reduction, Offsets& offsets);

// Return the offsets of all blocks in bytes. `windows`: packings of `reduction.windows` in units.
Offsets assemble(const Ring& ring, const Reduction& reduction,
                 const std::vector<const Offsets*>& windows);

// Return the window as a separate problem, with sizes in units and sections as ranks.
Ring ring_of(const Window& window);

// Return the offsets of the window's blocks in units. Blocks are pushed down from `offsets` of the
// ring until each rests on another block or the base. Blocks that interfere keep their order.
Offsets push_down(const Window& window, const Offsets& offsets);

// Return the height of the packing with these offsets, in units.
Bytes height_of(const Window& window, const Offsets& offsets);

}  // namespace pgmo::packing
