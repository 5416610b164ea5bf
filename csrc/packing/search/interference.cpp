#include "packing/search/interference.hpp"

#include <bit>
#include <numeric>

namespace pgmo::packing {

InterferenceIndex::InterferenceIndex(const Ring& ring) : ring_(ring) {
  if (ring.blocks() == 0) return;
  sort_by_begin();
  build_segment_tree();
  list_pairs();
}

void InterferenceIndex::sort_by_begin() {
  first_at_.assign(static_cast<std::size_t>(ring_.ranks) + 1, 0);
  for (const Rank begin : ring_.begin) ++first_at_[static_cast<std::size_t>(begin) + 1];
  std::partial_sum(first_at_.begin(), first_at_.end(), first_at_.begin());
  std::vector<Rank> next(first_at_.begin(), first_at_.end() - 1);
  by_begin_.resize(ring_.size.size());
  for (BlockId i = 0; i < ring_.blocks(); ++i) by_begin_[next[ring_.begin[i]]++] = i;
}

void InterferenceIndex::build_segment_tree() {
  leaves_ = static_cast<Rank>(std::bit_ceil(static_cast<std::uint32_t>(ring_.ranks)));
  const auto each_node = [&](Rank begin, Rank end, auto&& visit) {
    for (begin += leaves_, end += leaves_; begin < end; begin /= 2, end /= 2) {
      if (begin & 1) visit(begin++);
      if (end & 1) visit(--end);
    }
  };
  const auto each_part = [&](BlockId block, auto&& visit) {
    each_node(ring_.begin[block], std::min(ring_.end[block], ring_.ranks), visit);
    if (ring_.end[block] > ring_.ranks) each_node(0, ring_.end[block] - ring_.ranks, visit);
  };
  node_first_.assign(2 * static_cast<std::size_t>(leaves_) + 1, 0);
  for (BlockId i = 0; i < ring_.blocks(); ++i) {
    each_part(i, [&](Rank node) { ++node_first_[static_cast<std::size_t>(node) + 1]; });
  }
  std::partial_sum(node_first_.begin(), node_first_.end(), node_first_.begin());
  in_node_.resize(node_first_.back());
  std::vector<std::size_t> next(node_first_.begin(), node_first_.end() - 1);
  for (BlockId i = 0; i < ring_.blocks(); ++i) {
    each_part(i, [&](Rank node) { in_node_[next[node]++] = i; });
  }
}

void InterferenceIndex::list_pairs() {
  const std::size_t n = ring_.size.size();
  first_.assign(n + 1, 0);
  for (std::size_t i = 0; i < n; ++i) {
    search(static_cast<BlockId>(i), [&](BlockId other) { listed_.push_back(other); });
    first_[i + 1] = listed_.size();
    if (listed_.size() > kListed) {
      std::vector<BlockId>().swap(listed_);
      return;
    }
  }
  // If no two blocks interfere, the list stays empty, and `search` finds no block either.
}

}  // namespace pgmo::packing
