#include "packing/sweep/sweep_search.hpp"

#include <algorithm>

#include "packing/exact/luby.hpp"

namespace pgmo::packing {
namespace {

constexpr std::uint64_t kNodesPerSection = 4;  // of the shortest tries
constexpr BlockId kMostBlocks = 5000;         // whose turnovers are looked at before the first try,
constexpr std::size_t kMostSums = 4'000'000;  // with so many sums of sizes: a fraction of a second

constexpr Rank kTurns = 3;  // of a circle: one amid others

bool wraps(const Window& window) {
  return std::any_of(window.end.begin(), window.end.end(),
                     [&](Rank end) { return end > window.sections; });
}

// Where the fewest blocks of a circle are alive.
Rank narrowest(const Window& circle) {
  std::vector<int> alive(circle.sections);
  for (BlockId i = 0; i < circle.blocks(); ++i) {
    for (Rank s = circle.begin[i]; s < circle.end[i]; ++s) ++alive[s % circle.sections];
  }
  return static_cast<Rank>(std::min_element(alive.begin(), alive.end()) - alive.begin());
}

Unrolled line_of(const Window& window, Rank turn) {
  if (turn > 0) return unrolled(window, narrowest(window), kTurns * turn + 1);
  return {window, {}, {}};
}

Unrolled mirrored(Unrolled line) {
  Window& window = line.line;
  for (BlockId i = 0; i < window.blocks(); ++i) {
    const Rank begin = window.begin[i];
    window.begin[i] = window.sections - window.end[i];
    window.end[i] = window.sections - begin;
  }
  std::vector<BlockId> before(line.next.size(), -1);
  for (BlockId i = 0; i < static_cast<BlockId>(before.size()); ++i) {
    if (line.next[i] >= 0) before[line.next[i]] = i;
  }
  line.next = std::move(before);
  return line;
}

}  // namespace

bool SweepSearch::suits(const Window& window) {
  const bool circle = wraps(window);
  const BlockId turns = circle ? kTurns : 1;
  if (window.sections < 2 || turns * window.blocks() > kMostBlocks || !is_seamless(window)) {
    return false;
  }
  std::vector<std::size_t> out(static_cast<std::size_t>(window.sections) + 1), in(out.size());
  for (BlockId i = 0; i < window.blocks(); ++i) {
    ++in[window.begin[i]];
    ++out[circle ? window.end[i] % window.sections : window.end[i]];
  }
  std::size_t sums = 0;
  for (std::size_t s = circle ? 0 : 1; s + 1 < out.size(); ++s) {
    if (out[s] == 0) return false;  // not a section of its own
    if (std::max(out[s], in[s]) <= kMostSets) {
      sums += (std::size_t{1} << out[s]) + (std::size_t{1} << in[s]);
    }
  }
  return sums <= kMostSums / static_cast<std::size_t>(turns);
}

SweepSearch::SweepSearch(const Window& window, std::uint64_t seed, std::uint64_t first,
                         std::uint64_t stride)
    : window_(window),
      turn_(wraps(window) ? window.sections : 0),
      line_(line_of(window, turn_)),
      mirrored_(mirrored(line_)),
      seed_(seed),
      first_(first),
      stride_(stride) {}

// Small holes lead astray where there are none, so every other try does without, as if alone. The
// first two of either kind are those without a seed.
void SweepSearch::start() {
  const bool small = tries_ % 2 == 1;
  const std::uint64_t number = first_ + tries_ / 2 * stride_;
  rightward_ = number % 2 == 0;
  std::unique_ptr<Sweep>& sweep = rightward_ ? right_ : left_;
  const Unrolled& line = rightward_ ? line_ : mirrored_;
  if (!sweep) sweep = std::make_unique<Sweep>(line.line, turn_, line.next);
  sweep->start(number < 2 ? std::nullopt : std::optional(seed_ * 0x10001 + number), small);
  budget_ =
      kNodesPerSection * static_cast<std::uint64_t>(line.line.sections) * luby(tries_ / 2 + 1);
  ++tries_;
}

Sweep::State SweepSearch::run(std::uint64_t nodes, const std::function<bool()>& stopped) {
  const std::uint64_t end = nodes_ + nodes;
  while (nodes_ < end && !stopped()) {
    if (budget_ == 0) start();
    Sweep& sweep = rightward_ ? *right_ : *left_;
    const std::uint64_t before = sweep.nodes();
    Sweep::State state = sweep.run(std::min(budget_, end - nodes_), stopped);
    const std::uint64_t spent = sweep.nodes() - before;
    nodes_ += spent + (spent == 0);  // so that it ends even where nothing can be tried
    budget_ = sweep.over() ? 0 : budget_ - spent;
    if (state == Sweep::State::kFound) {
      offsets_ = sweep.offsets();
      if (turn_ == 0) return state;
      const Unrolled& line = rightward_ ? line_ : mirrored_;
      if (rolled_up(window_, line, offsets_)) return state;
      budget_ = 0;
      continue;
    }
    if (state != Sweep::State::kOpen) return state;
  }
  return Sweep::State::kOpen;
}

}  // namespace pgmo::packing
