#include "packing/exact/exact_search.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace pgmo::packing {
namespace {

constexpr Offset kNever = std::numeric_limits<Offset>::max();
constexpr std::size_t kAsk = 10000;  // open blocks visited between two polls of `stopped`

}  // namespace

ExactSearch::ExactSearch(const Window& window, Bytes capacity, const SearchOrder& order)
    : window_(window), capacity_(capacity), order_(order), n_(order.blocks.size()) {
  for (BlockId block : order.blocks) {
    size_.push_back(window.size[block]);
    begin_.push_back(window.begin[block]);
    end_.push_back(window.end[block]);
  }
  // Link equal blocks in the order in which they must lie.
  std::vector<Index> by_kind(n_);
  std::iota(by_kind.begin(), by_kind.end(), 0);
  const auto kind = [&](Index i) { return std::tuple(begin_[i], end_[i], size_[i]); };
  std::stable_sort(by_kind.begin(), by_kind.end(),
                   [&](Index a, Index b) { return kind(a) < kind(b); });
  twin_.assign(n_, -1);
  for (std::size_t i = 1; i < n_; ++i) {
    if (kind(by_kind[i]) == kind(by_kind[i - 1])) twin_[by_kind[i]] = by_kind[i - 1];
  }
  placed_.assign(n_, 0);
  part_of_.assign(window.sections, 0);
  levels_.resize(2 * n_ + 2);

  Level& root = push();
  for (Index i = 0; i < static_cast<Index>(n_); ++i) root.open.push_back({i, 0, 0, i});
  for (Index i = 0; i < static_cast<Index>(n_); ++i) {
    if (twin_[i] >= 0) root.open[i].low = root.open[twin_[i]].low + size_[i];
  }
  enter(root);
}

ExactSearch::State ExactSearch::run(std::uint64_t nodes, const std::function<bool()>& stopped) {
  const std::uint64_t end = nodes_ + nodes;
  while (state_ == State::kOpen && nodes_ < end) {
    Level& level = levels_[depth_ - 1];
    ++nodes_;
    unasked_ += level.open.size();
    if (unasked_ > kAsk) {
      unasked_ = 0;
      if (stopped()) break;
    }
    // Choose the lowest supported block. After `settle`, no floating block is lower.
    Index chosen = 0;
    const auto count = static_cast<Index>(level.open.size());
    while (chosen < count && level.open[chosen].low != level.open[chosen].top) ++chosen;
    if (chosen == count) {
      failed();
      continue;
    }
    level.chosen = chosen;
    const Open block = level.open[chosen];
    const Bytes top = block.low + size_[block.block];
    placed_[block.block] = block.low;
    Level& child = push();
    for (const Open& open : level.open) {
      if (open.block == block.block) continue;
      Open next = open;
      if (interfere(block.block, next.block)) {
        next.top = std::max(next.top, top);
        next.low = std::max(next.low, top);
        // Of two touching blocks with equal lifetimes, the first in the order lies below.
        const bool early = next.block < block.block && next.low == top;
        if (early && same_life(block.block, next.block)) ++next.low;
      }
      child.open.push_back(next);
    }
    enter(child);
  }
  return state_;
}

Offsets ExactSearch::offsets() const {
  Offsets offsets(n_);
  for (std::size_t i = 0; i < n_; ++i) offsets[order_.blocks[i]] = placed_[i];
  return offsets;
}

// Two lifetimes overlap if and only if one begins within the other, on a circle and on a line.
bool ExactSearch::interfere(Index a, Index b) const {
  Rank ahead = begin_[a] - begin_[b];
  if (ahead < 0) ahead += window_.sections;
  return ahead < end_[b] - begin_[b] || window_.sections - ahead < end_[a] - begin_[a];
}

bool ExactSearch::same_life(Index a, Index b) const {
  return begin_[a] == begin_[b] && end_[a] == end_[b];
}

ExactSearch::Level& ExactSearch::push() {
  Level& level = levels_[depth_++];
  level.open.clear();
  level.parts.clear();
  level.part = 0;
  level.chosen = -1;
  return level;
}

// Settle a new or changed level; backtrack if it has no solution.
void ExactSearch::enter(Level& level) {
  if (level.open.empty()) {
    solved();
  } else if (!settle(level)) {
    failed();
  } else if (split(level)) {
    Level& part = push();
    part.open.assign(level.open.begin(), level.open.begin() + level.parts[0]);
  }
}

// Continue after the current part is solved. Choices in the solved part cannot affect the next
// part, so all levels of the solved part are dropped.
void ExactSearch::solved() {
  while (--depth_ > 0) {
    Level& level = levels_[depth_ - 1];
    if (level.parts.empty()) continue;
    if (++level.part == level.parts.size()) continue;
    Level& next = push();
    next.open.assign(level.open.begin() + level.parts[level.part - 1],
                     level.open.begin() + level.parts[level.part]);
    return;
  }
  state_ = State::kFound;
}

// Backtrack from the top level, which has no solution: refuse the choices that led to it.
void ExactSearch::failed() {
  while (--depth_ > 0) {
    Level& level = levels_[depth_ - 1];
    if (!level.parts.empty()) continue;
    if (refuse(level)) return;
  }
  state_ = State::kInfeasible;
}

// Exclude the lowest offset of the chosen block. Return false if no offset is left for some block.
bool ExactSearch::refuse(Level& level) {
  const Index refused = level.open[level.chosen].block;
  const Offset low = ++level.open[level.chosen].low;
  for (Open& open : level.open) {
    if (twin_[open.block] == refused) open.low = std::max(open.low, low + size_[refused]);
  }
  level.chosen = -1;
  return settle(level);
}

bool ExactSearch::earlier(const Open& a, const Open& b) {
  return a.low != b.low ? a.low < b.low : a.turn < b.turn;
}

// Sort open blocks by rising `low`, then by turn: by insertion, because they are nearly sorted.
void ExactSearch::sort(Level& level) {
  std::vector<Open>& open = level.open;
  std::size_t moves = 0;
  for (std::size_t i = 1; i < open.size(); ++i) {
    const Open moved = open[i];
    std::size_t j = i;
    for (; j > 0 && earlier(moved, open[j - 1]); --j) open[j] = open[j - 1];
    open[j] = moved;
    moves += i - j;
    if (moves > 16 * open.size()) {
      std::sort(open.begin(), open.end(), earlier);
      return;
    }
  }
}

// Raise the lowest offsets of blocks until nothing changes, in at most three rounds. Return false
// if the level has no solution.
bool ExactSearch::settle(Level& level) {
  for (int round = 0; round < 3; ++round) {
    sort(level);
    if (!fits(level)) return false;
    raised_.clear();
    for (std::size_t i = 0; i < level.open.size(); ++i) {
      const Open& block = level.open[i];
      if (block.low == block.top) continue;
      Offset rest = kNever;
      bool first = true;
      for (const Open& other : level.open) {
        if (other.low >= rest) break;
        if (other.block == block.block || !interfere(other.block, block.block)) continue;
        // No remaining block can lie in the hole below this block, so this block could lie there.
        if (first && other.low >= block.top + size_[block.block]) return false;
        first = false;
        rest = std::min(rest, other.low + size_[other.block]);
      }
      if (rest == kNever) return false;
      if (rest > block.low) raised_.push_back({i, rest});
    }
    if (raised_.empty()) return true;
    // Blocks are raised only now, because the loop above relies on the sorting.
    for (const auto& [i, low] : raised_) level.open[i].low = low;
  }
  sort(level);
  return fits(level);
}

// Return whether in each section the blocks at or above any offset fit between that offset and the
// capacity.
bool ExactSearch::fits(const Level& level) {
  return capacity_ < std::numeric_limits<std::int32_t>::max() / 2 ? fits(level, load_)
                                                                  : fits(level, wide_load_);
}

template <typename Load>
bool ExactSearch::fits(const Level& level, std::vector<Load>& load) const {
  load.assign(window_.sections, 0);
  for (auto it = level.open.rbegin(); it != level.open.rend(); ++it) {
    const auto size = static_cast<Load>(size_[it->block]);
    if (it->low > capacity_ - size_[it->block]) return false;
    const auto room = static_cast<Load>(capacity_ - it->low);
    // `left` becomes negative if the load of any section exceeds the room. One sign for all
    // sections avoids comparisons in the loop.
    Load left = 0;
    const auto add = [&](Rank begin, Rank end) {
      for (Rank s = begin; s < end; ++s) left |= room - (load[s] += size);
    };
    add(begin_[it->block], std::min(end_[it->block], window_.sections));
    if (end_[it->block] > window_.sections) add(0, end_[it->block] - window_.sections);
    if (left < 0) return false;
  }
  return true;
}

// Return whether the open blocks split into parts that share no section; sort them by part.
bool ExactSearch::split(Level& level) {
  const Rank sections = window_.sections;
  crossing_.assign(sections, 0);
  Rank wrapping = 0;
  for (const Open& open : level.open) {
    // Count all sections of a block except its first: each is joined to its left neighbour.
    const Rank begin = begin_[open.block] + 1, end = end_[open.block];
    if (begin < sections) ++crossing_[begin];
    if (end < sections) {
      --crossing_[end];
    } else if (end > sections) {
      ++wrapping;
      if (end - sections < sections) --crossing_[end - sections];
      if (begin > sections) return false;
    }
  }
  // In the loop, `crossing` is the number of blocks that cross from s - 1 to s. The number of a
  // part is the number of cuts up to s.
  Rank crossing = wrapping;
  Rank parts = 0;
  for (Rank s = 0; s < sections; ++s) {
    crossing += crossing_[s];
    if (crossing == 0 && s > 0) ++parts;
    part_of_[s] = parts;
  }
  if (parts == 0) return false;
  // If a block wraps, the last part is also the first.
  const Rank last = wrapping > 0 ? parts : sections;
  const auto part_of = [&](const Open& open) {
    const Rank l = part_of_[begin_[open.block]];
    return l == last ? 0 : l;
  };
  const Rank first = part_of(level.open[0]);
  if (std::all_of(level.open.begin(), level.open.end(),
                  [&](const Open& open) { return part_of(open) == first; })) {
    return false;
  }
  std::stable_sort(level.open.begin(), level.open.end(),
                   [&](const Open& a, const Open& b) { return part_of(a) < part_of(b); });
  for (std::size_t i = 1; i <= level.open.size(); ++i) {
    if (i == level.open.size() || part_of(level.open[i]) != part_of(level.open[i - 1])) {
      const std::size_t begin = level.parts.empty() ? 0 : level.parts.back();
      level.parts.push_back(static_cast<Index>(i));
      if (order_.by_load) order_by_load(level, begin, i);
    }
  }
  return true;
}

// Assign turns in a part: blocks with the fullest section come first, ties in search order.
void ExactSearch::order_by_load(Level& level, std::size_t begin, std::size_t end) {
  const auto each_section = [&](const Open& open, auto visit) {
    const Rank first = begin_[open.block], last = end_[open.block];
    for (Rank s = first; s < std::min(last, window_.sections); ++s) visit(s);
    for (Rank s = 0; s < last - window_.sections; ++s) visit(s);
  };
  remaining_.assign(window_.sections, 0);
  for (std::size_t i = begin; i < end; ++i) {
    const Open& open = level.open[i];
    each_section(open, [&](Rank s) { remaining_[s] += size_[open.block]; });
  }
  keys_.clear();
  for (std::size_t i = begin; i < end; ++i) {
    Bytes most = 0;
    each_section(level.open[i], [&](Rank s) { most = std::max(most, remaining_[s]); });
    keys_.push_back({-most, i});
  }
  std::sort(keys_.begin(), keys_.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return level.open[a.second].block < level.open[b.second].block;
  });
  for (std::size_t turn = 0; turn < keys_.size(); ++turn) {
    level.open[keys_[turn].second].turn = static_cast<Index>(turn);
  }
  std::sort(level.open.begin() + static_cast<std::ptrdiff_t>(begin),
            level.open.begin() + static_cast<std::ptrdiff_t>(end), earlier);
}

}  // namespace pgmo::packing
