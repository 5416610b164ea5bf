#include "alignment/anchors.hpp"

#include <algorithm>
#include <utility>

namespace pgmo::alignment {

Anchors::Anchors(std::span<const std::int64_t> a, std::span<const std::int64_t> b,
                 std::size_t tokens, std::size_t off)
    : a_(a), b_(b), off_(off), tokens_(tokens) {}

std::vector<Gap> Anchors::pair(std::span<std::int64_t> row) {
  std::vector<Gap> without_anchors;
  std::vector<Gap> gaps{{0, a_.size(), 0, b_.size()}};
  for (int pass = 0; pass < kPasses && !gaps.empty(); ++pass) {
    std::vector<Gap> opened;
    for (const Gap& gap : gaps) split(gap, row, opened, without_anchors);
    gaps = std::move(opened);
  }
  without_anchors.insert(without_anchors.end(), gaps.begin(), gaps.end());
  return without_anchors;
}

// Fix the anchors in a gap, and append the gaps between them.
void Anchors::split(const Gap& gap, std::span<std::int64_t> row, std::vector<Gap>& opened,
                    std::vector<Gap>& without_anchors) {
  if (gap.low == gap.high || gap.left == gap.right) return;
  balanced(gap);
  const std::size_t found = pairs_.size();
  keep_chain();
  // If the chain has less than half of the pairs, the tokens occur equally often by chance.
  if (pairs_.empty() || 2 * pairs_.size() < found) {
    without_anchors.push_back(gap);
    return;
  }
  pairs_.push_back({gap.high, gap.right});
  Gap rest = gap;
  for (const Pair& anchor : pairs_) {
    rest.high = anchor.a;
    rest.right = anchor.b;
    if (rest.high - rest.low == rest.right - rest.left) {
      for (std::size_t k = 0; k < rest.high - rest.low; ++k) {
        row[rest.left + k] = static_cast<std::int64_t>(rest.low + k);
      }
    } else if (rest.low != rest.high && rest.left != rest.right) {
      opened.push_back(rest);
    }
    if (anchor.a != gap.high) row[anchor.b] = static_cast<std::int64_t>(anchor.a);
    rest.low = anchor.a + 1;
    rest.left = anchor.b + 1;
  }
}

// Pair the k-th occurrences of each token that occurs equally often in both sides of the gap. Skip
// pairs whose positions differ by more than `off_`.
void Anchors::balanced(const Gap& gap) {
  const auto in_a = a_.subspan(gap.low, gap.high - gap.low);
  const auto in_b = b_.subspan(gap.left, gap.right - gap.left);
  for (const std::int64_t token : in_a) of(token) = {};
  for (const std::int64_t token : in_b) of(token) = {};
  for (const std::int64_t token : in_a) ++of(token).in_a;
  for (const std::int64_t token : in_b) ++of(token).in_b;
  std::size_t begin = 0;
  for (const std::int64_t token : in_a) {
    Token& one = of(token);
    if (one.in_a != one.in_b || one.next != kNone) continue;
    one.next = begin;
    begin += one.in_a;
  }
  places_.resize(begin);
  for (std::size_t j = 0; j < in_b.size(); ++j) {
    Token& one = of(in_b[j]);
    if (one.next != kNone) places_[one.next++] = gap.left + j;
  }
  for (const std::int64_t token : in_a) {
    if (of(token).next != kNone) --of(token).next;  // back to the first of its positions
  }
  pairs_.clear();
  for (std::size_t i = 0; i < in_a.size(); ++i) {
    Token& one = of(in_a[i]);
    if (one.next == kNone) continue;
    const std::size_t x = gap.low + i;
    const std::size_t y = places_[one.next++];
    if ((x > y ? x - y : y - x) <= off_) pairs_.push_back({x, y});
  }
}

// Patience sorting: the pairs are sorted by `a`; keep a longest chain that is also sorted by `b`.
void Anchors::keep_chain() {
  tops_.clear();
  before_.resize(pairs_.size());
  for (std::size_t k = 0; k < pairs_.size(); ++k) {
    const auto below = [&](std::size_t top, std::size_t b) { return pairs_[top].b < b; };
    const auto pile = std::lower_bound(tops_.begin(), tops_.end(), pairs_[k].b, below);
    before_[k] = pile == tops_.begin() ? kNone : *(pile - 1);
    if (pile == tops_.end()) {
      tops_.push_back(k);
    } else {
      *pile = k;
    }
  }
  std::size_t kept = tops_.size();
  for (std::size_t k = tops_.empty() ? kNone : tops_.back(); k != kNone; k = before_[k]) {
    tops_[--kept] = k;
  }
  for (std::size_t at = 0; at < tops_.size(); ++at) pairs_[at] = pairs_[tops_[at]];
  pairs_.resize(tops_.size());
}

}  // namespace pgmo::alignment
