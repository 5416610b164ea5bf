// What ends and what begins between neighbouring sections that are both full to the capacity.
//
//   sections  0 | 1            Blocks end and leave holes; those that begin fill them, to the byte.
//             a | c            So each hole is a set of blocks that lay together, and the sizes of
//             a | c            those that fill it add up to theirs. If no part of what ends is as
//             b | d            large as a part of what begins, all of it is one hole: a and b lie
//             e | e            together.
//
// Sets that are known to lie together shrink the choice. Those that begin do so if what comes later
// in their place ends in one hole; those that end, if what came before them began in one.

#pragma once

#include <vector>

#include "packing/exact/window.hpp"

namespace pgmo::packing {

using Blocks = std::vector<BlockId>;

// A hole: the blocks whose end leaves it and those that fill it.
struct Hole {
  Blocks out, in;
};

// Between a section and the one before.
struct Turnover {
  Blocks out, in;
  std::vector<Blocks> in_sets;  // of `in`: each lies together
  bool whole = false;           // one hole, for certain
};

// By section, from 1 on; the first one has only what begins. The window is a line, and its sections
// hold one load.
std::vector<Turnover> turnovers(const Window& window);

// Sums of sizes over all subsets of the sets, by bit mask. At most kMostSets.
constexpr std::size_t kMostSets = 14;
std::vector<Bytes> subset_sums(const Window& window, const std::vector<Blocks>& sets);

}  // namespace pgmo::packing
