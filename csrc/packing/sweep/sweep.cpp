#include "packing/sweep/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace pgmo::packing {
namespace {

constexpr std::uint64_t kAsk = 64;       // nodes between looks at the clock
constexpr std::uint64_t kWork = 50'000;  // looks at sets between those
constexpr double kHardly = 3;      // partitions in two, up to which chance does not explain them
constexpr double kLeast = 0.1;     // to which a seed makes a way's cost of 1 at least
constexpr double kSwapped = 0.15;  // share of ways that change places in an order of a seed

}  // namespace

bool is_seamless(const Window& window) {
  std::vector<Bytes> load(static_cast<std::size_t>(window.sections) + 1);
  for (BlockId i = 0; i < window.blocks(); ++i) {
    const Rank end = std::min(window.end[i], window.sections), rest = window.end[i] - end;
    load[window.begin[i]] += window.size[i];
    load[end] -= window.size[i];
    if (rest > 0) load[0] += window.size[i], load[rest] -= window.size[i];
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  return window.sections > 0 &&
         std::all_of(load.begin(), load.end() - 1, [&](Bytes of) { return of == window.load; });
}

Sweep::Sweep(const Window& window, Rank period, std::vector<BlockId> next)
    : window_(window),
      turnovers_(turnovers(window)),
      early_(window.sections),
      choice_(window.sections),
      period_(period),
      next_(std::move(next)),
      tree_(window.block.size()) {
  if (period_ > 0) share();
  for (Rank s = 1; s < window.sections; ++s) {
    const Turnover& turnover = turnovers_[s];
    if (period_ > 0 && s > period_) {
      choice_[s] = choice_[s - period_];
    } else if (!turnover.whole) {
      choice_[s] = choices_++ % Reasons::kCapacity;
    }
    if (!turnover.whole || turnover.out.size() < 2) continue;
    Rank there = 0;
    for (const BlockId block : turnover.out) there = std::max(there, window.begin[block]);
    early_[there].push_back(turnover.out);
  }
}

// What is certain of a turnover is so in every turn. More is known of one amid others.
void Sweep::share() {
  first_.resize(next_.size());
  std::iota(first_.begin(), first_.end(), 0);
  for (BlockId i = 0; i < window_.blocks(); ++i) {
    if (next_[i] >= 0) first_[next_[i]] = first_[i];
  }
  std::vector<BlockId> before(next_.size(), -1);
  for (BlockId i = 0; i < window_.blocks(); ++i) {
    if (next_[i] >= 0) before[next_[i]] = i;
  }
  for (Rank s = 1; s <= period_ && s + period_ < window_.sections; ++s) {
    bool whole = false;
    for (Rank t = s; t < window_.sections; t += period_) whole |= turnovers_[t].whole;
    std::vector<Blocks> sets = turnovers_[s + period_].in_sets;
    for (Blocks& set : sets) {
      for (BlockId& block : set) block = before[block];
    }
    for (Rank t = s; t < window_.sections; t += period_) {
      turnovers_[t].whole = whole;
      turnovers_[t].in_sets = sets;
      for (Blocks& set : sets) {
        for (BlockId& block : set) block = next_[block];
      }
    }
  }
}

void Sweep::start(std::optional<std::uint64_t> seed, bool small) {
  small_ = small;
  random_.reset();
  if (seed) random_.emplace(*seed);
  levels_.clear();
  tree_.forget({0, 0});
  complete_ = true;
  PqTree::Node root = tree_.any_order(turnovers_[0].in);
  if (put_together(0, root)) enter(root);
}

// Opens the level before the next turnover.
void Sweep::enter(PqTree::Node root) {
  Level level;
  level.root = root;
  const std::size_t section = levels_.size() + 1;
  const auto period = static_cast<std::size_t>(period_);
  if (period > 0 && section > period && section < turnovers_.size()) {
    const Level& before = levels_[section - period - 1];
    level.parts.ways = {again(before.parts.ways[before.next - 1])};
    level.why = reasons(before, static_cast<Rank>(section - period));
    level.conflict = level.why;
  } else if (section < turnovers_.size()) {
    level.parts = ways(root, turnovers_[section], level.why);
    level.conflict = level.why;
  }
  level.mark = tree_.mark();
  levels_.push_back(std::move(level));
}

std::vector<Hole> Sweep::again(const std::vector<Hole>& holes) const {
  std::vector<Hole> later = holes;
  for (Hole& hole : later) {
    for (Blocks* side : {&hole.out, &hole.in}) {
      for (BlockId& block : *side) block = next_[block];
    }
  }
  return later;
}

Partitions Sweep::ways(PqTree::Node root, const Turnover& turnover, Reasons& why) {
  if (turnover.whole) {
    Partitions parts;
    parts.ways = {{{turnover.out, turnover.in}}};
    return parts;
  }
  const PqTree::Mark mark = tree_.mark();
  const auto possible = [&](const Blocks& blocks) {
    const bool can = tree_.gather(root, blocks, {}) != PqTree::kNone;
    if (!can) why |= tree_.why_not();
    tree_.forget(mark);
    return can;
  };
  Partitions parts = partitions(window_, tree_.together(root, turnover.out, why), turnover.in_sets,
                                possible, small_);
  complete_ = complete_ && parts.complete;
  unasked_ += parts.work;
  arrange(parts);
  return parts;
}

// Puts the likely ways first. If chance explains a partition, one hole is likelier than several.
void Sweep::arrange(Partitions& parts) {
  auto& ways = parts.ways;
  if (ways.size() < 2) return;
  if (!parts.costs.empty()) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const double by = random_ ? kLeast - std::log(1 - random_->unit()) : 1;
      order.push_back({by * parts.costs[i], i});
    }
    std::sort(order.begin(), order.end());
    std::vector<std::vector<Hole>> sorted;
    for (const auto& [cost, i] : order) sorted.push_back(std::move(ways[i]));
    ways = std::move(sorted);
    return;
  }
  const bool many =
      random_ ? random_->unit() * (kHardly + parts.chance) < kHardly : parts.chance < kHardly;
  std::stable_sort(ways.begin(), ways.end(), [&](const auto& a, const auto& b) {
    return many ? a.size() > b.size() : a.size() < b.size();
  });
  if (!random_) return;
  for (std::size_t i = ways.size() - 1; i > 0; --i) {
    if (random_->unit() >= kSwapped) continue;
    std::swap(ways[i], ways[random_->below(static_cast<std::uint32_t>(i + 1))]);
  }
}

Reasons Sweep::reasons(const Level& level, Rank section) const {
  return level.parts.ways.size() > 1 ? Reasons(choice_[section]) : level.why;
}

bool Sweep::put_together(Rank section, PqTree::Node& root) {
  for (const Blocks& blocks : early_[section]) {
    root = tree_.gather(root, blocks, {});
    if (root == PqTree::kNone) return false;
  }
  return true;
}

// Goes on from a level if these can be the holes; otherwise it knows why not.
bool Sweep::cross(Level& level, const std::vector<Hole>& holes) {
  const auto section = static_cast<Rank>(levels_.size());
  const Reasons why = reasons(level, section);
  PqTree::Node root = level.root;
  for (const Hole& hole : holes) {
    root = tree_.gather(root, hole.out, why);
    if (root == PqTree::kNone) {
      level.conflict |= tree_.why_not();
      level.conflict |= why;
      return false;
    }
    root = tree_.replace(root, hole.out, hole.in, why);
  }
  if (!put_together(section, root)) {
    level.conflict |= tree_.why_not();
    return false;
  }
  enter(root);
  return true;
}

// The last level has no way left: back to the last one that had a part in that.
Sweep::State Sweep::go_back() {
  Reasons conflict = levels_.back().conflict;
  while (!levels_.empty()) {
    Level& level = levels_.back();
    const auto section = static_cast<Rank>(levels_.size());
    if (level.parts.ways.size() > 1 && conflict.has(choice_[section])) {
      if (level.next < level.parts.ways.size()) {
        level.conflict |= conflict;
        return State::kOpen;
      }
      conflict |= level.conflict;
      if (choices_ <= Reasons::kCapacity) conflict.drop(choice_[section]);
    }
    levels_.pop_back();
  }
  return complete_ ? State::kInfeasible : State::kOpen;
}

Sweep::State Sweep::run(std::uint64_t nodes, const std::function<bool()>& stopped) {
  const std::uint64_t end = nodes_ + nodes;
  while (!levels_.empty()) {
    if (levels_.size() == turnovers_.size()) return State::kFound;
    Level& level = levels_.back();
    tree_.forget(level.mark);
    if (level.next == level.parts.ways.size()) {
      if (go_back() == State::kInfeasible) return State::kInfeasible;
      continue;
    }
    if (nodes_ >= end) return State::kOpen;
    if (nodes_ % kAsk == 0 || unasked_ > kWork) {
      unasked_ = 0;
      if (stopped()) return State::kOpen;
    }
    ++nodes_;
    const std::vector<Hole> holes = level.parts.ways[level.next++];
    cross(level, holes);
  }
  return State::kOpen;
}

Offsets Sweep::offsets() {
  Offsets offsets(window_.block.size());
  Blocks stack = tree_.order(levels_.back().root);
  for (auto section = static_cast<Rank>(levels_.size()) - 1;; --section) {
    Offset top = 0;
    for (const BlockId block : stack) {
      offsets[block] = top;
      top += window_.size[block];
    }
    if (section == 0) return offsets;
    const Level& level = levels_[section - 1];
    const std::vector<Hole>& holes = level.parts.ways[level.next - 1];
    std::vector<PqTree::Node> roots;
    PqTree::Node root = level.root;
    for (const Hole& hole : holes) {
      roots.push_back(root = tree_.gather(root, hole.out, {}));
      root = tree_.replace(root, hole.out, hole.in, {});
    }
    for (std::size_t i = holes.size(); i-- > 0;) {
      stack = tree_.order_like(roots[i], stack, holes[i].in, holes[i].out, first_);
    }
  }
}

}  // namespace pgmo::packing
