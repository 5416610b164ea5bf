// Byte ranges that are in use: disjoint, sorted, ranges that touch are joined.
//
//      [0, 64)      [128, 256)        [512, 640)
//      |####|.......|########|........|####|........ > offset
//      \___ chunk, widest gap 64 ___/ \_ chunk, 256 ...
//
// Packed tightly, ranges join to a few long ones; while a packing is under way there may be very
// many. So they lie in chunks: an addition moves the ranges of one chunk at most, and the search
// for a gap steps over chunks that cannot have it.

#pragma once

#include <algorithm>
#include <vector>

#include "types.hpp"

namespace pgmo::packing {

class IntervalSet {
 public:
  // Where a search that only moves up has come to. Not kept across additions.
  struct Cursor {
    std::uint32_t chunk = 0, index = 0;
  };

  bool empty() const { return top_ == 0; }

  // All below `solid` is in use, nothing above `top`.
  Offset solid() const { return solid_; }
  Offset top() const { return top_; }

  void clear() { *this = {}; }

  // Whether that changed anything: false if all of it was in use.
  bool add(Offset begin, Offset end);
  void add(const IntervalSet& other);

  // The lowest offset >= `at` with `size` free bytes above it. Hand a default cursor to the first
  // of a series of calls with rising `at`, and the same one to the rest.
  Offset first_gap(Offset at, Bytes size, Cursor& cursor) const {
    return widest_gap_ < size ? std::max(at, top_) : search(at, size, cursor);
  }

 private:
  struct Interval {
    Offset begin, end;
  };
  struct Chunk {
    std::vector<Interval> intervals;  // at least one, at most kFull
    Offset end;                       // of the last interval
    // At least the widest of the gaps below each interval. Additions only narrow gaps, so an old
    // value stays a bound; a search that went through the chunk in vain corrects it.
    mutable Bytes widest_gap;
  };

  static constexpr std::size_t kFull = 128;

  std::size_t count() const;
  Offset search(Offset at, Bytes size, Cursor& cursor) const;
  bool add_above(Offset begin, Offset end);
  void rise(Offset end);
  void insert(std::size_t chunk, std::size_t index, Interval interval);
  void swallow(std::size_t chunk, std::size_t index, Interval interval);
  void assign(const std::vector<Interval>& intervals);

  Offset solid_ = 0;
  Offset top_ = 0;
  mutable Bytes widest_gap_ = 0;  // at least the widest of all chunks
  std::vector<Chunk> chunks_;     // above what is solid, not touching it
};

}  // namespace pgmo::packing
