// Which offsets are in use when: what first fit asks before it places a block.
//
// A segment tree over time. A lifetime is cut into O(log n) canonical nodes (#). Each node keeps
// `used`, the offsets used by any block at any time within it, and `cover`, the offsets of blocks
// that use it from its beginning to its end.
//
//            [........]          The lowest gap free in `used` of all the canonical nodes, and in
//          /            \        `cover` of the nodes above those, is found by leapfrogging: each
//       [....]        [....]     set in turn moves the candidate up to its own next gap, until a
//       /    \        /    \     whole round leaves it in place.
//     [..]  #..#    #..#  [..]
//     /  \                /  \.
//    .    #              .    .
//
// The sets of a node and of one above it often interlock like two combs, which makes leapfrogging
// slow. So wide nodes hand their cover down to their children before these are looked at (lazily),
// and `used` of a wide node is complete. Narrow nodes are too many for that, and few blocks begin
// or end within them.
//
// Where blocks come by falling lifetime, none that is there already lies strictly inside a later
// one's lifetime: whoever meets it is alive at its first or at its last rank. Then the covers on
// the ways down to these two ranks say it all, and nobody needs `used`.

#pragma once

#include <vector>

#include "packing/greedy/interval_set.hpp"
#include "packing/packer.hpp"

namespace pgmo::packing {

// The order in which blocks come: any, or by falling lifetime.
enum class Arrival { kAny, kFallingLifetime };

class Occupancy {
 public:
  explicit Occupancy(Rank ranks, Arrival arrival = Arrival::kAny);

  // The lowest offset with `size` bytes free during [begin, end); an end past the last rank wraps.
  Offset lowest_fit(Rank begin, Rank end, Bytes size);

  // Marks [offset, offset + size) as used during [begin, end).
  void add(Rank begin, Rank end, Offset offset, Bytes size);

 private:
  struct Node {
    IntervalSet used, cover;
  };
  struct Watched {
    const IntervalSet* set;
    IntervalSet::Cursor cursor;
  };

  // What was found last for a lifetime. Gaps only shrink: there is none of this size below it.
  struct Recent {
    Rank begin = -1, end = -1;
    Bytes size = 0;
    Offset at = 0;
  };

  void watch_within(Rank node, Rank first, Rank last, Rank begin, Rank end);
  void watch_ends(Rank node, Rank first, Rank last, Rank a, Rank b);
  void watch_cover(Rank node, Rank width);
  void insert(Rank begin, Rank end, Offset low, Offset high);
  void hand_down(Rank node);

  Rank ranks_;
  bool ends_only_;
  Rank leaves_;
  Rank narrow_;                   // nodes of at most this width keep their cover
  std::vector<Node> nodes_;       // node i has the children 2i and 2i + 1
  std::vector<Recent> recent_;    // by a hash of the lifetime; a newer one replaces an older
  std::vector<Watched> watched_;  // scratch of lowest_fit
};

// Places the blocks in the given order, each at the lowest offset free for all of its lifetime, as
// far as it comes.
Offsets fill_first_fit(const Ring& ring, const Stop& stop, const std::vector<BlockId>& order,
                       Arrival arrival = Arrival::kAny);

}  // namespace pgmo::packing
