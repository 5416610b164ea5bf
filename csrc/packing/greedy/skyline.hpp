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

#include <vector>

#include "packing/greedy/fit_index.hpp"
#include "packing/packer.hpp"

namespace pgmo::packing {

// One skyline for many attempts at the same ring, which it refers to.
class SkylinePacker {
 public:
  // `stopped` is asked now and then whether to drop everything.
  explicit SkylinePacker(const Ring& ring, Stop stopped = {});

  // Places the blocks, preferring them in the given order (each block once, the best first).
  // False when it was stopped.
  bool fill(const std::vector<BlockId>& preference);

  // Of the last attempt.
  const Offsets& offsets() const { return offsets_; }

  // How many lines were looked at since the beginning: the work done, whatever the clock says.
  std::uint64_t steps() const { return steps_; }

 private:
  struct Line {
    Rank begin, width;
    Offset height;
    std::int32_t left, right;
    std::int32_t version;  // tells heap entries that speak of an earlier state of the line
  };
  struct HeapEntry {
    Offset height;
    Rank begin;
    std::int32_t line, version;
    bool operator<(const HeapEntry& other) const;
  };

  void start(const std::vector<BlockId>& preference);
  Rank best_on(const Line& line) const;
  void put(std::int32_t index, BlockId block);
  void lift(std::int32_t index);
  void merge_equal(std::int32_t index);
  void absorb(std::int32_t index, std::int32_t gone);
  std::int32_t add();
  void set(std::int32_t index, Rank begin, Rank width, Offset height, std::int32_t left);
  void link(std::int32_t left, std::int32_t right);
  void push(std::int32_t index);
  Rank wrap(Rank rank) const { return rank >= length_ ? rank - length_ : rank; }

  const Ring& ring_;
  Stop stopped_;
  FitIndex index_;
  Rank length_;
  Offsets offsets_;
  std::uint64_t steps_ = 0;
  std::vector<Line> lines_;
  std::vector<std::int32_t> free_;
  std::vector<HeapEntry> heap_;
};

}  // namespace pgmo::packing
