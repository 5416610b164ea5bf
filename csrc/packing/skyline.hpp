// The skyline: how high the arena is filled at each tick, and the packer that builds upon it.
//
//   offset          A line is a stretch of time filled to one height. Take the lowest line (the
//     ^ __          leftmost of equals) and put on it the most preferred of the blocks whose
//     ||  |___  _   lifetime fits between its ends; the line splits around the block. If none
//     ||      || |  fits, nothing will ever go there: lift the line to its lower neighbour and
//     ||  v   || |  merge the two.
//     +---------------> ticks
//
// On a circle the lines form a ring, so wrapping lifetimes need no special case; on a line one
// more line of endless height stands between the end and the beginning.

#pragma once

#include "packing/packer.hpp"

namespace pgmo::packing {

// Fills the skyline, preferring blocks in the given order (each block once, the best first).
Offsets fill_skyline(const Ring& ring, const std::vector<BlockId>& preference);

}  // namespace pgmo::packing
