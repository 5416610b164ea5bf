// Finds the most preferred unplaced block whose lifetime lies inside a given time span.
//
//   end ^      :                  Each block is a point (begin, end). "Inside [l, r)" is the
//       |   .  :  .    .          quadrant begin >= l, end <= r, found with a k-d tree: a node
//     r |......:_________         outside the quadrant is skipped, and a node inside it returns its
//       |    . | * .              best block at once. At most O(sqrt n) nodes cross an edge,
//       |      |. *               whatever the lifetimes are.
//       +------l---------> begin
//
// If few blocks begin inside the time span, a linear scan of them is faster.

#pragma once

#include <limits>
#include <vector>

#include "packing/problem.hpp"

namespace pgmo::packing {

class FitIndex {
 public:
  explicit FitIndex(const Ring& ring);

  // Insert all blocks again. `preference` contains each block once, the most preferred first.
  void fill(const std::vector<BlockId>& preference);

  // Return the first position in `preference` of a block that lives within [low, high), or kNone.
  Rank best_within(Rank low, Rank high) const;

  void remove(BlockId block);

  static constexpr Rank kNone = std::numeric_limits<Rank>::max();

 private:
  static constexpr Rank kLeaf = 8;    // maximum number of points in a leaf
  static constexpr Rank kFew = 256;   // maximum number of blocks to scan linearly
  static constexpr Rank kTree = 512;  // maximum number of blocks without a tree

  struct Point {
    Rank begin, end, place;  // place == kNone once removed
  };
  struct Node {
    Rank min_begin, max_begin, min_end, max_end;  // of the remaining points
    Rank best;                                    // smallest place; kNone if empty
  };

  void build_tree();
  void arrange(Rank node, Rank first, Rank last, bool by_begin);
  void summarise_all(Rank node, Rank first, Rank last);
  void summarise_leaf(Rank node, Rank first, Rank last);
  void summarise(Rank node);
  void search(Rank node, Rank first, Rank last, Rank low, Rank high, Rank& best) const;

  // Rows sorted by begin, scanned for time spans with few blocks.
  std::vector<Rank> first_at_;     // rank -> the first row that begins there or later
  std::vector<Rank> row_;          // block -> row
  std::vector<Rank> end_, place_;  // by row; place kNone once removed
  // The tree.
  std::vector<Point> points_;
  std::vector<BlockId> block_;  // of each point
  std::vector<Rank> slot_;      // block -> index into points_
  std::vector<Node> nodes_;     // node i has the children 2i and 2i + 1; empty if there is no tree
};

}  // namespace pgmo::packing
