// The likelier ways to part what ends into holes, where both sides are too many for all of them.
//
//     out  | a  b  c  d  e  f ... |     One hole of few blocks, {b} and {y, z} of one size, beside
//     in   | w  x  y  z ...       |     that of all others; or two such holes beside the rest.
//
// The fewer sets a hole has, the fewer such holes there are by chance alone.

#pragma once

#include "packing/sweep/partition.hpp"

namespace pgmo::packing {

// As `partitions`; not complete. Each way has its cost: how many there would be by chance of those
// that have as many sets. One hole has that at which one and several are equally likely.
Partitions small_holes(const Window& window, const std::vector<Blocks>& out,
                       const std::vector<Blocks>& in,
                       const std::function<bool(const Blocks&)>& possible);

}  // namespace pgmo::packing
