// The free ranges of an arena, for guests: blocks that the plan has no slot for.
//
//     arena   ▓▓▓▓▓▓░░░░░░▓▓▓░░▓▓▓▓▓▓▓▓░░░░░░░░
//                   └─12─┘   └4┘       └──16──┘      a guest of 3 goes into the gap of 4: best fit
//
// Kept only while guests come, since it has to learn of every slot that is taken or freed, too; the
// engine makes it anew from what is alive when the next one comes. Exact to the byte, so that it
// does not matter how the blocks of earlier plans were aligned.

#pragma once

#include <map>
#include <set>
#include <span>
#include <utility>

#include "types.hpp"

namespace pgmo {

class Gaps {
 public:
  using Range = pgmo::Range;

  // The gaps that the living blocks, which are sorted and disjoint, leave of `whole`; those that do
  // not begin in it are left out of account. Throws std::bad_alloc.
  Gaps(Range whole, std::span<const Range> living, Bytes alignment);

  const Range& whole() const noexcept { return whole_; }

  // Where a guest of this size fits best, a multiple of the alignment behind the arena's start; or
  // kUnplanned. Takes nothing.
  Offset find(Bytes bytes) const noexcept;

  // The same outside of some ranges, sorted and disjoint. Looks into a few gaps only.
  Offset find_outside(std::span<const Range> ranges, Bytes bytes) const noexcept;

  // A block has been placed at an offset that was free. False, or std::bad_alloc: what is known
  // here is wrong now and has to be thrown away.
  [[nodiscard]] bool take(Offset offset, Bytes bytes);

  // A block has gone, of as many bytes as it was placed with; 0: none has. The same with
  // std::bad_alloc.
  void free(Offset offset, Bytes bytes);

 private:
  using ByOffset = std::map<Offset, Offset>;  // begin to end

  static constexpr int kMostLooks = 32;

  void add(Range gap);
  void remove(ByOffset::iterator gap) noexcept;

  // The first offset of a gap, or behind it, that a guest may have.
  Offset aligned(Offset begin) const noexcept;

  Range whole_;
  Bytes alignment_;
  ByOffset by_offset_;
  std::set<std::pair<Bytes, Offset>> by_room_;  // for a guest, and where it would begin
};

}  // namespace pgmo
