// Among the blocks not yet placed, the most preferred one whose lifetime lies inside a window.
//
//   end ^      :                  Each block is the point (begin, end). "Lies inside [l, r)" is
//       |   .  :  .    .          the quadrant begin >= l, end <= r, so a k-d tree answers: a node
//     r |......:_________         outside the quadrant is skipped, a node inside it answers with
//       |    . | * .              its best block at once, and at most O(sqrt n) nodes lie across
//       |      |. *               an edge, whatever the lifetimes are.
//       +------l---------> begin

#pragma once

#include <limits>
#include <vector>

#include "packing/problem.hpp"

namespace pgmo::packing {

class FitIndex {
 public:
  // `preference` orders the blocks, the most preferred first; each block is in it once.
  FitIndex(const Ring& ring, const std::vector<BlockId>& preference);

  // The place in `preference` of the best block with begin >= low and end <= high, or kNone.
  Rank best_within(Rank low, Rank high) const;

  void remove(Rank place);

  bool empty() const { return nodes_[1].best == kNone; }

  static constexpr Rank kNone = std::numeric_limits<Rank>::max();

 private:
  static constexpr Rank kLeaf = 8;  // points a leaf holds, at most

  struct Point {
    Rank begin, end, place;  // place == kNone once removed
  };
  struct Node {
    Rank min_begin, max_begin, min_end, max_end;  // of the points still there
    Rank best;                                    // smallest place, kNone when empty
  };

  void build(Rank node, Rank first, Rank last, bool by_begin);
  void summarise_leaf(Rank node, Rank first, Rank last);
  void summarise(Rank node);
  void search(Rank node, Rank first, Rank last, Rank low, Rank high, Rank& best) const;

  std::vector<Point> points_;
  std::vector<Rank> slot_;   // place -> index into points_
  std::vector<Node> nodes_;  // node i has the children 2i and 2i + 1
};

}  // namespace pgmo::packing
