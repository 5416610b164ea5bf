// Finds the blocks that are alive at some tick of a block's life, and must share no byte with it.
//
//        |==== a ====|           The blocks that meet x are those alive when x begins (a), found
//             |== x ==|          in the nodes above that rank of a segment tree, and those that
//               |= b =|          begin later in x's life (b), which are adjacent by begin.
//
// If there are few enough pairs, they are listed in advance.

#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "packing/problem.hpp"

namespace pgmo::packing {

class Meetings {
 public:
  explicit Meetings(const Ring& ring);

  // Call visit(other) for each block that meets this one. A block that is alive almost all around a
  // circle may be visited twice.
  template <typename Visit>
  void each(BlockId block, Visit visit) const {
    if (!listed_.empty()) {
      for (std::size_t i = first_[block]; i < first_[block + 1]; ++i) visit(listed_[i]);
    } else {
      search(block, visit);
    }
  }

 private:
  static constexpr std::size_t kListed = std::size_t{1} << 23;  // maximum number of listed entries

  template <typename Visit>
  void search(BlockId block, Visit visit) const {
    const auto other = [&](BlockId met) {
      if (met != block) visit(met);
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
  void hang_into_tree();
  void list_pairs();

  const Ring& ring_;
  std::vector<Rank> first_at_;  // rank -> first entry of by_begin_ that begins there or later
  std::vector<BlockId> by_begin_;
  Rank leaves_ = 1;
  std::vector<std::size_t> node_first_;  // node -> its first entry of in_node_
  std::vector<BlockId> in_node_;    // blocks alive throughout a node, but not throughout its parent
  std::vector<std::size_t> first_;  // block -> its first entry of listed_
  std::vector<BlockId> listed_;     // empty if there are too many
};

}  // namespace pgmo::packing
