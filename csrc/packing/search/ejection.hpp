// Local search for a packing within a capacity. Each move places a block where that costs least,
// and removes the blocks in its way.
//
//   capacity ----------------------        The cost of a place is the weight of the blocks there.
//     ^   +-----+  <- x            |       A block's weight starts with its area and grows each
//     |   |  b  +----+   in: x     |       time the block is put back. So blocks that are hard to
//     |   +--+--+ c  |   out: b    |       place are soon left in place, and other blocks move.
//     |   | a|--+----+             |
//     +----------------------------+ ticks
//
// A move of x visits only the blocks that interfere with x. So its cost does not grow with the
// problem. When all blocks have a place, the capacity falls by a share of the distance to the
// bound. If the search for a capacity takes too long, the share is halved. If the capacity fell by
// one unit or less, the next search may take twice as long instead.

#pragma once

#include <vector>

#include "packing/packer.hpp"
#include "packing/random.hpp"
#include "packing/search/interference.hpp"

namespace pgmo::packing {

class Ejection {
 public:
  // The ring and the index must outlive this object. All sizes are multiples of `unit`.
  Ejection(const Ring& ring, const InterferenceIndex& interference, Bytes unit, std::uint64_t seed);

  // Start from a packing that needs `arena` bytes. The next capacities are smaller.
  void restart(const Offsets& offsets, Bytes arena);

  // Search for about `work` units of work, and return whether the arena fell. Ends early at the
  // bound, or when `give_up(units so far)` returns true.
  template <typename GiveUp>
  bool run(Bytes bound, std::uint64_t work, GiveUp give_up) {
    const Bytes before = arena_;
    const std::uint64_t until = work_ + work;
    aim(bound);
    while (work_ < until && arena_ > bound) {
      for (int burst = 0; burst < 64 && !unplaced_.empty(); ++burst) move();
      if (unplaced_.empty()) {
        succeed(bound);
      } else if (work_ >= patience_end_) {
        fail(bound);
      }
      if (give_up(work_)) break;
    }
    return arena_ < before;
  }

  const Offsets& offsets() const { return best_; }
  Bytes arena() const { return arena_; }
  std::uint64_t work() const { return work_; }

 private:
  struct Edge {  // an offset at which the cost of a place changes
    Offset at;
    double change;
  };

  void aim(Bytes bound);
  void succeed(Bytes bound);
  void fail(Bytes bound);
  void move();
  Offset cheapest_place(BlockId block);
  void take_out(BlockId block);
  void rescale_weights();

  const Ring& ring_;
  const InterferenceIndex& interference_;
  Bytes unit_;
  Random random_;
  Offsets best_;
  Bytes arena_ = 0;

  Bytes capacity_ = 0;
  double stride_ = 0.2;  // share of the distance to the bound by which the capacity falls
  std::uint64_t patience_ = 0, patience_end_ = 0;
  Offsets place_;  // kUnplanned for blocks without a place
  std::vector<BlockId> unplaced_;
  std::vector<double> gain_;  // growth of a block's weight each time it is put back
  std::vector<double> weight_;
  std::vector<Edge> edges_;  // scratch of cheapest_place
  std::uint64_t work_ = 0;
};

}  // namespace pgmo::packing
