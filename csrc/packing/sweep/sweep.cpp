#include "packing/sweep/sweep.hpp"

#include <algorithm>
#include <utility>

namespace pgmo::packing {
namespace {

constexpr std::uint64_t kAsk = 64;       // nodes between looks at the clock
constexpr std::uint64_t kWork = 50'000;  // looks at sets between those
constexpr double kHardly = 3;      // partitions in two, up to which chance does not explain them
constexpr double kSwapped = 0.15;  // share of ways that change places in an order of a seed

}  // namespace

bool is_seamless(const Window& window) {
  std::vector<Bytes> change(static_cast<std::size_t>(window.sections) + 1);
  for (BlockId i = 0; i < window.blocks(); ++i) {
    if (window.end[i] > window.sections) return false;
    change[window.begin[i]] += window.size[i];
    change[window.end[i]] -= window.size[i];
  }
  return window.sections > 0 && change[0] == window.load &&
         std::all_of(change.begin() + 1, change.end() - 1, [](Bytes by) { return by == 0; });
}

Sweep::Sweep(const Window& window)
    : window_(window),
      turnovers_(turnovers(window)),
      early_(window.sections),
      choice_(window.sections),
      tree_(window.block.size()) {
  for (Rank s = 1; s < window.sections; ++s) {
    const Turnover& turnover = turnovers_[s];
    if (!turnover.whole) choice_[s] = choices_++ % Reasons::kCapacity;
    if (!turnover.whole || turnover.out.size() < 2) continue;
    Rank there = 0;
    for (const BlockId block : turnover.out) there = std::max(there, window.begin[block]);
    early_[there].push_back(turnover.out);
  }
}

void Sweep::start(std::optional<std::uint64_t> seed) {
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
  if (section < turnovers_.size()) {
    level.parts = ways(root, turnovers_[section], level.why);
    level.conflict = level.why;
  }
  level.mark = tree_.mark();
  levels_.push_back(std::move(level));
}

Partitions Sweep::ways(PqTree::Node root, const Turnover& turnover, Reasons& why) {
  if (turnover.whole) {
    Partitions parts;
    parts.ways = {{{turnover.out, turnover.in}}};
    return parts;
  }
  const PqTree::Mark mark = tree_.mark();
  Partitions parts = partitions(window_, tree_.together(root, turnover.out, why), turnover.in_sets,
                                [&](const Blocks& blocks) {
                                  const bool can = tree_.gather(root, blocks, {}) != PqTree::kNone;
                                  if (!can) why |= tree_.why_not();
                                  tree_.forget(mark);
                                  return can;
                                });
  complete_ = complete_ && parts.complete;
  unasked_ += parts.work;
  arrange(parts);
  return parts;
}

// Puts the likely ways first. If chance explains a partition, one hole is likelier than several.
void Sweep::arrange(Partitions& parts) {
  auto& ways = parts.ways;
  if (ways.size() < 2) return;
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
      stack = tree_.order_like(roots[i], stack, holes[i].in, holes[i].out);
    }
  }
}

}  // namespace pgmo::packing
