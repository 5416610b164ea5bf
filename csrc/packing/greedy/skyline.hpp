// The skyline is the filled height of the arena at each tick. The packer puts blocks on it.
//
//   offset          A line is a time span filled to one height. Take the lowest line (the leftmost
//     ^ __          of equals) and put on it the most preferred block whose lifetime fits between
//     ||  |___  _   its ends. The line splits around the block. If no block fits, none will ever
//     ||      || |  lie on this line: lift the line to its lower neighbour and merge the two.
//     ||  v   || |
//     +---------------> ticks
//
// On a circle, the skyline's lines form a ring, so wrapping lifetimes need no special case.
// Otherwise, an additional line of infinite height separates the end of time from its beginning.

#pragma once

#include <vector>

#include "packing/greedy/fit_index.hpp"
#include "packing/packer.hpp"

namespace pgmo::packing {

// Packs one ring in many attempts. The ring must outlive the packer.
class SkylinePacker {
 public:
  // `stopped` is polled regularly; true cancels the attempt.
  explicit SkylinePacker(const Ring& ring, Stop stopped = {});

  // Place all blocks. `preference` contains each block once, the most preferred first. Return false
  // if `stopped` has cancelled the attempt.
  bool fill(const std::vector<BlockId>& preference);

  // Return the offsets of the last attempt.
  const Offsets& offsets() const { return offsets_; }

  // Return the number of lines visited so far, a measure of work independent of time.
  std::uint64_t steps() const { return steps_; }

 private:
  struct Line {
    Rank begin, width;
    Offset height;
    std::int32_t left, right;
    std::int32_t version;  // marks heap entries of earlier states as stale
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
