// The packing problem: find offsets in one arena for blocks with a size and a lifetime.
//
//   offset                          period
//     ^   +----+                      |        A lifetime is half-open, [lower, upper), in ticks.
//     |   | B  |        +-----+  +----|        Time is a circle of `period` ticks: C's lifetime
//     |   +----+-----+  |  D  |  | C  |        passes the end, so C is also alive at the start
//     |--+   |   A   |  +-----+  |    |        of the next iteration, at the same offset.
//     |C |   +-------+-----------+    |        period == 0 means a line: nothing wraps.
//     +--+----------------------------+--> ticks
//
// Two blocks that are alive at the same tick must not share a byte. The max load, the largest sum
// of sizes alive at one tick, is a lower bound for every arena.

#pragma once

#include <cstdint>
#include <vector>

#include "types.hpp"

namespace pgmo::packing {

// A problem as the caller states it. pgmo/packing/problem.py has checked that columns have equal
// length, sizes are positive, and 0 <= lower < upper. On a circle, it also checks lower < period
// and upper - lower <= period. Aligned sizes sum to at most 2^62.
struct Problem {
  std::vector<Bytes> size;
  std::vector<Tick> lower;
  std::vector<Tick> upper;
  Tick period = 0;
  Bytes alignment = 1;
};

// A time span in which blocks are requested and none is freed, numbered from 0. Two lifetimes
// overlap only if both blocks are alive at the end of some span, so packers ignore other ticks.
// Training traces have several requests per rank.
using Rank = std::int32_t;

// A problem prepared for packing. Sizes are multiples of the alignment, and time is counted in
// ranks. A circle is rotated so that rank 0 has the least load.
struct Ring {
  Rank ranks = 0;         // length of the circle or line
  bool circular = false;  // false: no end exceeds `ranks`
  std::vector<Bytes> size;
  std::vector<Rank> begin;     // in [0, ranks)
  std::vector<Rank> end;       // in (begin, begin + ranks]
  std::vector<Tick> lifetime;  // in the problem's own ticks, for comparing lifetimes
  Bytes max_load = 0;

  BlockId blocks() const { return static_cast<BlockId>(size.size()); }
};

// Return the sum of sizes alive at each rank. A block whose end exceeds the number of ranks wraps.
std::vector<Bytes> load_of(Rank ranks, const std::vector<Bytes>& size,
                           const std::vector<Rank>& begin, const std::vector<Rank>& end);

// Prepare a problem. O(n log n).
Ring make_ring(const Problem& problem);

}  // namespace pgmo::packing
