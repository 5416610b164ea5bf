// The orders in which packers take blocks.

#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "packing/problem.hpp"

namespace pgmo::packing {

// Blocks by falling key. Equal keys are ordered by lifetime, size and begin, so that the order
// (and with it the arena) depends on the blocks alone; only of equal blocks the first goes first.
template <typename Key>
std::vector<BlockId> by_falling(const Ring& ring, Key key) {
  std::vector<BlockId> order(ring.size.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](BlockId a, BlockId b) {
    if (const auto x = key(a), y = key(b); x != y) return x > y;
    if (ring.lifetime[a] != ring.lifetime[b]) return ring.lifetime[a] > ring.lifetime[b];
    if (ring.size[a] != ring.size[b]) return ring.size[a] > ring.size[b];
    if (ring.begin[a] != ring.begin[b]) return ring.begin[a] < ring.begin[b];
    if (ring.end[a] != ring.end[b]) return ring.end[a] < ring.end[b];
    return a < b;
  });
  return order;
}

// Size times lifetime. A double orders products beyond 2^63, too.
inline double area(const Ring& ring, BlockId block) {
  return static_cast<double>(ring.size[block]) * static_cast<double>(ring.lifetime[block]);
}

}  // namespace pgmo::packing
