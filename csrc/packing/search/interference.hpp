// Finds the blocks that interfere with a block: their lifetimes overlap, so they must share no
// byte.
//
//        |==== a ====|         Block a is alive when x begins. A segment tree of lifetimes finds
//             |== x ==|        such blocks, in the nodes from x's first rank to the root.
//               |= b =|        Block b begins during x's life. Such blocks are adjacent in an
//                              array that is sorted by begin.
//
// If the lists of interfering blocks have at most `kListed` entries, they are computed in advance.

#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "packing/problem.hpp"

namespace pgmo::packing {

class InterferenceIndex {
 public:
  // The ring must outlive this object.
  explicit InterferenceIndex(const Ring& ring);

  // Call visit(other) for each block that interferes with this one. On a circle, a block whose
  // lifetime covers almost the whole circle may be visited twice.
  template <typename Visit>
  void each(BlockId block, Visit visit) const {
    if (!listed_.empty()) {
      for (std::size_t i = first_[block]; i < first_[block + 1]; ++i) visit(listed_[i]);
    } else {
      search(block, visit);
    }
  }

 private:
  static constexpr std::size_t kListed = std::size_t{1} << 23;  // 32 MiB of block numbers

  template <typename Visit>
  void search(BlockId block, Visit visit) const {
    const auto other = [&](BlockId found) {
      if (found != block) visit(found);
    };
    const Rank begin = ring_.begin[block];
    for (Rank node = begin + leaves_; node >= 1; node /= 2) {
      for (std::size_t i = node_first_[node]; i < node_first_[node + 1]; ++i) other(in_node_[i]);
    }
    const auto begins_in = [&](Rank low, Rank high) {
      for (Rank i = first_at_[low]; i < first_at_[high]; ++i) other(by_begin_[i]);
    };
    const Rank end = ring_.end[block];
    if (begin + 1 < end) begins_in(begin + 1, std::min(end, ring_.ranks));
    if (end > ring_.ranks) begins_in(0, std::min(end - ring_.ranks, begin));
  }

  void sort_by_begin();
  void build_segment_tree();
  void list_pairs();

  const Ring& ring_;
  std::vector<Rank> first_at_;  // rank -> first entry of by_begin_ that begins there or later
  std::vector<BlockId> by_begin_;
  Rank leaves_ = 1;
  std::vector<std::size_t> node_first_;  // node -> its first entry of in_node_
  std::vector<BlockId> in_node_;    // blocks alive throughout a node, but not throughout its parent
  std::vector<std::size_t> first_;  // block -> its first entry of listed_
  std::vector<BlockId> listed_;     // empty if there are more than kListed
};

}  // namespace pgmo::packing
