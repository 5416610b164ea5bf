// What is left of a problem for searches, once everything easy is taken out of it.
//
//   b  |====|                    Of all ticks only those matter at which no further block is alive
//   l     |=====|                than at a neighbouring one: the sections. Lifetimes become ranges
//   o        |====|  |===|       of sections, many of them equal. Blocks that are alive in all
//   c  |==|     |========|       sections of a part conflict with everything else there: they form
//   k          ^ ^       ^       the base below it. A part ends where no block lives on.
//   s     sections 0 1    2
//
// None of this changes the smallest arena. Two blocks meet in a section if they meet at all; a
// block that meets all others can be drawn out of any packing and put below it; and a block that
// finds a gap below the lower bound, wherever the others lie, is not what makes an arena large.
// Blocks of equal lifetimes stay apart, as others may have to lie between them: the search orders
// them instead.

#pragma once

#include <vector>

#include "packing/packer.hpp"

namespace pgmo::packing {

// Blocks that are packed by themselves: nothing outside of them, or in the base, meets them
// except the base. A lifetime that wraps has an end beyond the last section.
struct Window {
  std::vector<BlockId> block;    // of the ring
  std::vector<Bytes> size;       // in units, as all sizes and offsets of a window
  std::vector<Rank> begin, end;  // [begin, end) in sections, begin < sections
  std::vector<Tick> lifetime;    // in the problem's own ticks
  Rank sections = 0;
  Bytes base = 0;  // bytes below it
  Bytes unit = 1;  // the largest number of bytes that divides all sizes of the problem
  Bytes load = 0;  // largest sum of sizes in a section

  BlockId blocks() const { return static_cast<BlockId>(block.size()); }
  Bytes bytes(Offset units) const { return base + units * unit; }
};

struct Reduction {
  std::vector<Window> windows;
  Offsets offsets;              // of the blocks in a base; kUnplanned for all others
  std::vector<BlockId> spared;  // blocks that fit in somewhere whatever the others do
  Bytes arena = 0;              // what the bases need
};

// Blocks up to which some are spared: each better packing has to find a place for them again, among
// all the blocks that they meet.
constexpr BlockId kSpareUpTo = 20'000;

// Takes a problem apart. `bound` is a lower bound of its arena: spared blocks fit below it.
Reduction reduce(const Ring& ring, Bytes bound);

// Adds the spared blocks to offsets that lack them, each at the lowest offset that is free.
void restore(const Ring& ring, const Reduction& reduction, Offsets& offsets);

// Puts packings of the windows together, in units and in the order of the reduction's windows.
Offsets assemble(const Ring& ring, const Reduction& reduction,
                 const std::vector<const Offsets*>& windows);

// The window as a problem of its own: its sizes in units, its sections as ranks.
Ring ring_of(const Window& window);

// The window's part of offsets of the ring, in units: pushed down until each block rests on another
// one or on the base, which keeps the order of blocks that meet.
Offsets push_down(const Window& window, const Offsets& offsets);

// What these offsets need, in units.
Bytes height_of(const Window& window, const Offsets& offsets);

}  // namespace pgmo::packing
