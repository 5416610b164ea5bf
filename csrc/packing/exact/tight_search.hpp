// Depth-first search for a packing that wastes next to nothing.
//
//   offset       capacity
//     ^ ..........................     Where the load of a section is all of the capacity, no hole
//     |   ?     +---+    ?             can be: some block lies on its floor, exactly. Few can (here
//     |---------+ s |   +-----+        only one that lives in no section but s). The section with
//     |    a    | ? |---+  b  |        the fewest candidates is filled first; one without any ends
//     +---------+---+---------+--> t   the branch.
//
//  - A section is in the way as often as it ended a branch: the more often, the earlier it is
//    filled, though it has more candidates (dom/wdeg: Boussemart et al. 2004).
//  - Blocks fill a floor between two higher ones side by side, from wall to wall. Only those that
//    are part of such a row are candidates; where there is none, the branch ends.
//  - Which blocks are placed, and the floors they left, say whether the rest fits. States that had
//    no solution are remembered from one try to the next.
//  - Where the load leaves room, a section may have a hole: its floor rises to where something else
//    may bear what comes next.
//
// States are known by a hash of 64 bits, so it finds packings and proves nothing.

#pragma once

#include <cstdint>
#include <functional>
#include <unordered_set>
#include <vector>

#include "packing/exact/window.hpp"

namespace pgmo::packing {

class TightSearch {
 public:
  enum class State { kOpen, kFound, kExhausted };

  // The capacity is in units.
  TightSearch(const Window& window, Bytes capacity);

  // Begins a try: of the blocks that may come next, those in front in `order` go first.
  void start(const std::vector<BlockId>& order);

  // Goes on for at most so many nodes, or until `stopped`, which is asked now and then. kExhausted
  // when nothing is left to try, in this or any other order.
  State run(std::uint64_t nodes, const std::function<bool()>& stopped);

  Bytes capacity() const { return capacity_; }
  std::uint64_t nodes() const { return nodes_; }

  // In units, by the window's numbers. Only when found.
  const Offsets& offsets() const { return placed_; }

 private:
  // One level: a section to be filled, and who may come next there.
  struct Level {
    Rank section;
    Offset hole;  // what its floor rises to if nothing lies on it
    std::uint64_t state;
    std::size_t next, end;        // in `choices_`
    std::size_t raised, changed;  // how long the trails were before a choice
  };
  struct Raised {
    BlockId block;
    Offset top;
  };
  struct Changed {
    Rank section;
    Offset floor;
    Bytes remaining;
    std::int32_t candidates;
  };

  template <typename Visit>
  void each_section(Rank begin, Rank end, Visit visit) const;
  void reset();
  bool make(BlockId choice, const Level& level);
  void lift(Rank begin, Rank end, Offset top, Bytes size, Rank& dead);
  void undo(const Level& level);
  bool descend();
  bool row(Rank begin, Rank length);
  Offset top_of_hole(Rank section, Rank valley, Rank length) const;
  bool full(Rank section) const { return floor_[section] + remaining_[section] == capacity_; }
  std::uint64_t state() const;
  void keep(Rank section);
  bool next_there(BlockId block, Rank section) const {
    return top_[block] <= capacity_ - remaining_[section];
  }

  const Window& window_;
  const Bytes capacity_;
  bool ring_ = false;
  std::vector<std::vector<BlockId>> alive_, begin_at_;  // by section
  std::vector<std::uint64_t> kind_;                     // of a block: equal for equal blocks
  std::vector<double> weight_;                          // of a section: how often it ended a branch
  std::unordered_set<std::uint64_t> failed_;

  std::vector<Offset> floor_;             // by section
  std::vector<Bytes> remaining_;          // by section: of open blocks
  std::vector<std::int32_t> candidates_;  // by section
  std::vector<Offset> top_, placed_;      // by block
  std::vector<bool> open_;
  std::vector<std::int32_t> turn_;
  std::vector<bool> from_, to_;  // of a row of sections
  std::vector<std::int32_t> ways_;
  std::size_t left_ = 0;
  std::uint64_t set_ = 0;     // stands for the blocks that are open
  std::uint64_t floors_ = 0;  // stands for the floors of all sections that have open blocks

  std::vector<Level> levels_;
  std::vector<BlockId> choices_, path_;
  std::vector<Raised> raised_;
  std::vector<Changed> changed_;
  std::vector<std::uint64_t> kept_;     // by section: the mark of the level that has kept it
  std::vector<std::uint64_t> covered_;  // the same of the block that was placed last
  std::uint64_t mark_ = 0;
  std::uint64_t nodes_ = 0;
  State state_ = State::kOpen;
};

}  // namespace pgmo::packing
