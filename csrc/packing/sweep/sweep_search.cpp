#include "packing/sweep/sweep_search.hpp"

#include <algorithm>

#include "packing/exact/luby.hpp"

namespace pgmo::packing {
namespace {

constexpr std::uint64_t kNodesPerSection = 4;  // of the shortest tries
constexpr BlockId kMostBlocks = 5000;         // whose turnovers are looked at before the first try,
constexpr std::size_t kMostSums = 4'000'000;  // with so many sums of sizes: a fraction of a second

Window mirrored(Window window) {
  for (BlockId i = 0; i < window.blocks(); ++i) {
    const Rank begin = window.begin[i];
    window.begin[i] = window.sections - window.end[i];
    window.end[i] = window.sections - begin;
  }
  return window;
}

}  // namespace

bool SweepSearch::suits(const Window& window) {
  if (window.sections < 2 || window.blocks() > kMostBlocks || !is_seamless(window)) return false;
  std::vector<std::size_t> out(static_cast<std::size_t>(window.sections) + 1), in(out.size());
  for (BlockId i = 0; i < window.blocks(); ++i) {
    ++in[window.begin[i]];
    ++out[window.end[i]];
  }
  std::size_t sums = 0;
  for (std::size_t s = 1; s + 1 < out.size(); ++s) {
    if (std::max(out[s], in[s]) <= kMostSets) {
      sums += (std::size_t{1} << out[s]) + (std::size_t{1} << in[s]);
    }
  }
  return sums <= kMostSums;
}

SweepSearch::SweepSearch(const Window& window, std::uint64_t seed, std::uint64_t first,
                         std::uint64_t stride)
    : window_(window), seed_(seed), stride_(stride), next_(first), mirrored_(mirrored(window)) {}

// The first two tries are those without a seed.
void SweepSearch::start() {
  std::unique_ptr<Sweep>& sweep = next_ % 2 == 0 ? right_ : left_;
  if (!sweep) sweep = std::make_unique<Sweep>(next_ % 2 == 0 ? window_ : mirrored_);
  now_ = sweep.get();
  now_->start(next_ < 2 ? std::nullopt : std::optional(seed_ * 0x10001 + next_));
  next_ += stride_;
  budget_ = kNodesPerSection * static_cast<std::uint64_t>(window_.sections) * luby(++tries_);
}

Sweep::State SweepSearch::run(std::uint64_t nodes, const std::function<bool()>& stopped) {
  const std::uint64_t end = nodes_ + nodes;
  while (nodes_ < end && !stopped()) {
    if (budget_ == 0) start();
    const std::uint64_t before = now_->nodes();
    const Sweep::State state = now_->run(std::min(budget_, end - nodes_), stopped);
    const std::uint64_t spent = now_->nodes() - before;
    nodes_ += spent + (spent == 0);  // so that it ends even where nothing can be tried
    budget_ = now_->over() ? 0 : budget_ - spent;
    if (state != Sweep::State::kOpen) return state;
  }
  return Sweep::State::kOpen;
}

}  // namespace pgmo::packing
