#include "packing/greedy/fit_index.hpp"

#include <algorithm>
#include <numeric>

namespace pgmo::packing {

FitIndex::FitIndex(const Ring& ring) {
  const Rank n = ring.blocks();
  first_at_.assign(static_cast<std::size_t>(ring.ranks) + 1, 0);
  for (const Rank begin : ring.begin) ++first_at_[static_cast<std::size_t>(begin) + 1];
  std::partial_sum(first_at_.begin(), first_at_.end(), first_at_.begin());
  row_.resize(n);
  end_.resize(n);
  place_.assign(n, kNone);
  std::vector<Rank> next(first_at_.begin(), first_at_.end() - 1);
  for (BlockId block = 0; block < n; ++block) {
    row_[block] = next[ring.begin[block]]++;
    end_[row_[block]] = ring.end[block];
  }
  if (n <= kTree) return;
  points_.resize(n);
  for (BlockId block = 0; block < n; ++block) {
    points_[row_[block]] = {ring.begin[block], ring.end[block], block};
  }
  build_tree();
}

// Build the tree: split the points in halves, by begin and end in turn. Until `fill` is called, the
// `place` of a point is its block.
void FitIndex::build_tree() {
  const Rank n = static_cast<Rank>(points_.size());
  std::size_t nodes = 2;
  for (std::size_t leaves = 1; leaves * kLeaf < points_.size(); leaves *= 2) nodes *= 2;
  nodes_.resize(nodes);
  arrange(1, 0, n, true);
  block_.resize(n);
  slot_.resize(n);
  for (Rank i = 0; i < n; ++i) {
    block_[i] = points_[i].place;
    slot_[block_[i]] = i;
  }
}

void FitIndex::arrange(Rank node, Rank first, Rank last, bool by_begin) {
  if (2 * static_cast<std::size_t>(node) >= nodes_.size()) return;
  const Rank middle = first + (last - first) / 2;
  if (node > 1) {  // the first split finds the points sorted by begin
    std::nth_element(points_.begin() + first, points_.begin() + middle, points_.begin() + last,
                     [by_begin](const Point& a, const Point& b) {
                       return by_begin ? a.begin < b.begin : a.end < b.end;
                     });
  }
  arrange(2 * node, first, middle, !by_begin);
  arrange(2 * node + 1, middle, last, !by_begin);
}

void FitIndex::fill(const std::vector<BlockId>& preference) {
  const Rank n = static_cast<Rank>(preference.size());
  for (Rank place = 0; place < n; ++place) place_[row_[preference[place]]] = place;
  if (nodes_.empty()) return;
  for (Rank i = 0; i < n; ++i) points_[i].place = place_[row_[block_[i]]];
  summarise_all(1, 0, n);
}

void FitIndex::summarise_all(Rank node, Rank first, Rank last) {
  if (2 * static_cast<std::size_t>(node) >= nodes_.size()) {
    summarise_leaf(node, first, last);
    return;
  }
  const Rank middle = first + (last - first) / 2;
  summarise_all(2 * node, first, middle);
  summarise_all(2 * node + 1, middle, last);
  summarise(node);
}

void FitIndex::summarise_leaf(Rank node, Rank first, Rank last) {
  constexpr Rank kLow = std::numeric_limits<Rank>::min();
  Node sum{kNone, kLow, kNone, kLow, kNone};
  for (Rank i = first; i < last; ++i) {
    const Point& point = points_[i];
    if (point.place == kNone) continue;
    sum.min_begin = std::min(sum.min_begin, point.begin);
    sum.max_begin = std::max(sum.max_begin, point.begin);
    sum.min_end = std::min(sum.min_end, point.end);
    sum.max_end = std::max(sum.max_end, point.end);
    sum.best = std::min(sum.best, point.place);
  }
  nodes_[node] = sum;
}

void FitIndex::summarise(Rank node) {
  const Node& a = nodes_[2 * node];
  const Node& b = nodes_[2 * node + 1];
  nodes_[node] = {std::min(a.min_begin, b.min_begin), std::max(a.max_begin, b.max_begin),
                  std::min(a.min_end, b.min_end), std::max(a.max_end, b.max_end),
                  std::min(a.best, b.best)};
}

Rank FitIndex::best_within(Rank low, Rank high) const {
  const Rank ranks = static_cast<Rank>(first_at_.size()) - 1;
  const Rank first = first_at_[low];
  const Rank last = first_at_[std::min(high, ranks)];
  Rank best = kNone;
  if (nodes_.empty() || last - first <= kFew) {
    const Rank* end = end_.data();
    const Rank* place = place_.data();
    for (Rank row = first; row < last; ++row) {
      const Rank candidate = end[row] <= high ? place[row] : kNone;
      best = std::min(best, candidate);
    }
  } else {
    search(1, 0, static_cast<Rank>(points_.size()), low, high, best);
  }
  return best;
}

void FitIndex::search(Rank node, Rank first, Rank last, Rank low, Rank high, Rank& best) const {
  const Node& here = nodes_[node];
  if (here.best >= best || here.max_begin < low || here.min_end > high) return;
  if (here.min_begin >= low && here.max_end <= high) {
    best = here.best;
    return;
  }
  if (2 * static_cast<std::size_t>(node) >= nodes_.size()) {
    for (Rank i = first; i < last; ++i) {
      const Point& point = points_[i];
      if (point.place < best && point.begin >= low && point.end <= high) best = point.place;
    }
    return;
  }
  const Rank middle = first + (last - first) / 2;
  // Search the half with the better block first, because its result prunes the other half.
  if (nodes_[2 * node].best < nodes_[2 * node + 1].best) {
    search(2 * node, first, middle, low, high, best);
    search(2 * node + 1, middle, last, low, high, best);
  } else {
    search(2 * node + 1, middle, last, low, high, best);
    search(2 * node, first, middle, low, high, best);
  }
}

void FitIndex::remove(BlockId block) {
  place_[row_[block]] = kNone;
  if (nodes_.empty()) return;
  const Rank slot = slot_[block];
  points_[slot].place = kNone;
  // Find the leaf of the slot, then update the summaries up to the root.
  Rank node = 1;
  Rank first = 0;
  Rank last = static_cast<Rank>(points_.size());
  while (2 * static_cast<std::size_t>(node) < nodes_.size()) {
    const Rank middle = first + (last - first) / 2;
    const bool right = slot >= middle;
    node = 2 * node + (right ? 1 : 0);
    (right ? first : last) = middle;
  }
  summarise_leaf(node, first, last);
  for (node /= 2; node >= 1; node /= 2) summarise(node);
}

}  // namespace pgmo::packing
