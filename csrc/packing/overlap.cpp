#include "packing/overlap.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

namespace pgmo::packing {
namespace {

std::vector<std::size_t> sorted_by(std::span<const Tick> tick) {
  std::vector<std::size_t> order(tick.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t one, std::size_t other) { return tick[one] < tick[other]; });
  return order;
}

}  // namespace

std::optional<std::pair<std::size_t, std::size_t>> first_overlap(const PlacedBlocks& blocks) {
  const std::vector<std::size_t> requests = sorted_by(blocks.begin);
  const std::vector<std::size_t> frees = sorted_by(blocks.end);
  std::map<Offset, std::size_t> living;  // live blocks by offset; their ranges are disjoint
  std::size_t freed = 0;
  for (const std::size_t one : requests) {
    for (; blocks.end[frees[freed]] <= blocks.begin[one]; ++freed) {
      living.erase(blocks.low[frees[freed]]);
    }
    const auto above = living.lower_bound(blocks.low[one]);
    if (above != living.end() && above->first < blocks.high[one]) return {{one, above->second}};
    if (above != living.begin()) {
      const std::size_t below = std::prev(above)->second;
      if (blocks.high[below] > blocks.low[one]) return {{one, below}};
    }
    living.emplace_hint(above, blocks.low[one], one);
  }
  return std::nullopt;
}

}  // namespace pgmo::packing
