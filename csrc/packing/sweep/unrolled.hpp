// A circle of lifetimes as a line that goes round it for a while.
//
//   circle   section 0  1  2        From section 1 on, for one turn and the section that it begins
//            ==a==|     |==a==      with: what is alive there is alive at both ends, as two copies.
//            |==b==|                A packing of the circle is one of the line in which copies have
//            |     |==c==|          one offset; a packing of the line need not be one of the
//            circle.
//
//   line     section 1  2  0  1
//            |     |====a====|
//            ==b|  |     |=b=

#pragma once

#include <vector>

#include "packing/sweep/turnover.hpp"

namespace pgmo::packing {

struct Unrolled {
  Window line;
  std::vector<BlockId> of;    // by copy: the circle's block
  std::vector<BlockId> next;  // by copy: that of the same block a turn later, or -1
};

// The circle from section `from` on, for so many sections. What is alive in the first or last one
// has no more of its life than that.
Unrolled unrolled(const Window& circle, Rank from, Rank sections);

// Makes offsets of the copies those of the circle's blocks, if some turn of the line ends with the
// stack that it began with, and says so.
bool rolled_up(const Window& circle, const Unrolled& line, Offsets& offsets);

}  // namespace pgmo::packing
