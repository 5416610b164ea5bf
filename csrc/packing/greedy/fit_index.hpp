// Among the blocks not yet placed, the most preferred one whose lifetime lies inside a window.
//
//   end ^      :                  Each block is the point (begin, end). "Lies inside [l, r)" is
//       |   .  :  .    .          the quadrant begin >= l, end <= r, so a k-d tree answers: a node
//     r |......:_________         outside the quadrant is skipped, a node inside it answers with
//       |    . | * .              its best block at once, and at most O(sqrt n) nodes lie across
//       |      |. *               an edge, whatever the lifetimes are.
//       +------l---------> begin
//
// Where few blocks begin inside the window it is quicker to look at each of those.

#pragma once

#include <limits>
#include <vector>

#include "packing/problem.hpp"

namespace pgmo::packing {

class FitIndex {
 public:
  explicit FitIndex(const Ring& ring);

  // Puts all blocks back. `preference` orders them, the most preferred first, each block once.
  void fill(const std::vector<BlockId>& preference);

  // The place in the preference of the best block with begin >= low and end <= high, or kNone.
  Rank best_within(Rank low, Rank high) const;

  void remove(BlockId block);

  static constexpr Rank kNone = std::numeric_limits<Rank>::max();

 private:
  static constexpr Rank kLeaf = 8;    // points a leaf holds, at most
  static constexpr Rank kFew = 256;   // blocks that are sooner looked at than searched for
  static constexpr Rank kTree = 512;  // blocks without a tree, at most

  struct Point {
    Rank begin, end, place;  // place == kNone once removed
  };
  struct Node {
    Rank min_begin, max_begin, min_end, max_end;  // of the points still there
    Rank best;                                    // smallest place, kNone when empty
  };

  void plant();
  void arrange(Rank node, Rank first, Rank last, bool by_begin);
  void summarise_all(Rank node, Rank first, Rank last);
  void summarise_leaf(Rank node, Rank first, Rank last);
  void summarise(Rank node);
  void search(Rank node, Rank first, Rank last, Rank low, Rank high, Rank& best) const;

  // By begin: what the windows with few blocks are looked up in.
  std::vector<Rank> first_at_;     // rank -> the first row that begins there or later
  std::vector<Rank> row_;          // block -> row
  std::vector<Rank> end_, place_;  // by row; place kNone once removed
  // The tree.
  std::vector<Point> points_;
  std::vector<BlockId> block_;  // of each point
  std::vector<Rank> slot_;      // block -> index into points_
  std::vector<Node> nodes_;     // node i has the children 2i and 2i + 1; empty without a tree
};

}  // namespace pgmo::packing
