#include "packing/sweep/turnover.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

namespace pgmo::packing {
namespace {

// The sets of both sides of a turnover while they are being found.
struct Sides {
  std::vector<Blocks> out, in;
};

bool is_whole(const Window& window, const Sides& sides) {
  if (sides.out.size() < 2 || sides.in.size() < 2) return true;
  if (sides.out.size() > kMostSets || sides.in.size() > kMostSets) return false;
  std::vector<Bytes> out = subset_sums(window, sides.out), in = subset_sums(window, sides.in);
  const Bytes all = out.back();
  std::sort(out.begin(), out.end());
  std::sort(in.begin(), in.end());
  for (std::size_t i = 0, j = 0; i < out.size() && j < in.size();) {
    if (out[i] == in[j] && out[i] > 0 && out[i] < all) return false;
    (out[i] < in[j] ? i : j) += 1;
  }
  return true;
}

// Follows the places of sets through the turnovers ahead, or back, as long as these are whole.
class Follow {
 public:
  Follow(const Window& window, const std::vector<Turnover>& turnovers, bool ahead)
      : window_(window), turnovers_(turnovers), ahead_(ahead) {}

  // Joins the sets beside a section that lie together for certain. True if there are any.
  bool join(std::vector<Blocks>& sets) {
    root_.resize(sets.size());
    std::iota(root_.begin(), root_.end(), std::size_t{0});
    place_.clear();
    next_.clear();
    for (std::size_t i = 0; i < sets.size(); ++i) {
      for (const BlockId block : sets[i]) enter(block, i);
    }
    std::size_t left = sets.size();
    while (!next_.empty() && left > 1) left -= pass(*next_.begin());
    if (left == sets.size()) return false;
    std::vector<Blocks> joined(sets.size());
    for (std::size_t i = 0; i < sets.size(); ++i) {
      Blocks& into = joined[find(i)];
      into.insert(into.end(), sets[i].begin(), sets[i].end());
    }
    std::erase_if(joined, [](const Blocks& blocks) { return blocks.empty(); });
    sets = std::move(joined);
    return true;
  }

 private:
  void enter(BlockId block, std::size_t set) {
    place_[block] = set;
    const Rank at = ahead_ ? window_.end[block] : window_.begin[block];
    if (at > 0 && at < window_.sections) next_.insert(ahead_ ? at : -at);
  }

  // The next turnover, which is at a section or minus that. How many sets it joined.
  std::size_t pass(Rank at) {
    next_.erase(at);
    const Turnover& turnover = turnovers_[ahead_ ? at : -at];
    const Blocks& gone = ahead_ ? turnover.out : turnover.in;
    const bool known = std::all_of(gone.begin(), gone.end(),
                                   [&](BlockId block) { return place_.contains(block); });
    std::size_t joined = 0;
    if (!turnover.whole || !known) {
      for (const BlockId block : gone) place_.erase(block);
      return joined;
    }
    const std::size_t set = find(place_[gone[0]]);
    for (const BlockId block : gone) {
      const std::size_t other = find(place_[block]);
      joined += other != set;
      root_[other] = set;
      place_.erase(block);
    }
    for (const BlockId block : ahead_ ? turnover.in : turnover.out) enter(block, set);
    return joined;
  }

  std::size_t find(std::size_t set) const {
    while (root_[set] != set) set = root_[set];
    return set;
  }

  const Window& window_;
  const std::vector<Turnover>& turnovers_;
  const bool ahead_;
  std::vector<std::size_t> root_;         // of the joined sets
  std::map<BlockId, std::size_t> place_;  // in which set's place a block lies
  std::set<Rank> next_;                   // turnovers
};

}  // namespace

std::vector<Bytes> subset_sums(const Window& window, const std::vector<Blocks>& sets) {
  std::vector<Bytes> sizes;
  for (const Blocks& blocks : sets) {
    Bytes& size = sizes.emplace_back(0);
    for (const BlockId block : blocks) size += window.size[block];
  }
  std::vector<Bytes> sums(std::size_t{1} << sizes.size());
  for (std::size_t mask = 1; mask < sums.size(); ++mask) {
    sums[mask] = sums[mask & (mask - 1)] + sizes[std::countr_zero(mask)];
  }
  return sums;
}

std::vector<Turnover> turnovers(const Window& window) {
  std::vector<Turnover> turnovers(window.sections);
  std::vector<Sides> sides(window.sections);
  for (BlockId i = 0; i < window.blocks(); ++i) {
    const Rank begin = window.begin[i], end = window.end[i];
    turnovers[begin].in.push_back(i);
    sides[begin].in.push_back({i});
    if (end == window.sections) continue;
    turnovers[end].out.push_back(i);
    sides[end].out.push_back({i});
  }
  for (Rank s = 1; s < window.sections; ++s) turnovers[s].whole = is_whole(window, sides[s]);
  Follow ahead(window, turnovers, true), back(window, turnovers, false);
  constexpr int kRounds = 4;  // more never found anything
  bool found = true;
  for (int round = 0; found && round < kRounds; ++round) {
    found = false;
    for (Rank s = 1; s < window.sections; ++s) {
      if (turnovers[s].whole) continue;
      const bool joined = ahead.join(sides[s].in);
      if (!back.join(sides[s].out) && !joined) continue;
      found = true;
      turnovers[s].whole = is_whole(window, sides[s]);
    }
  }
  for (Rank s = 0; s < window.sections; ++s) turnovers[s].in_sets = std::move(sides[s].in);
  return turnovers;
}

}  // namespace pgmo::packing
