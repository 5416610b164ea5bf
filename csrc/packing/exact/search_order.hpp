// The orders in which exact search tries blocks: it lives or dies by them, and none is always good.

#pragma once

#include <cstdint>
#include <vector>

#include "packing/exact/window.hpp"

namespace pgmo::packing {

// Order number `index` of a window: the first few are the ones that have proved good most often,
// the rest are drawn at random, the same ones for one seed.
std::vector<BlockId> search_order(const Window& window, std::uint64_t seed, std::uint64_t index);

// An order like the given one: blocks move by up to a third of it, mostly by far less.
std::vector<BlockId> similar_order(const std::vector<BlockId>& order, std::uint64_t seed,
                                   std::uint64_t index);

}  // namespace pgmo::packing
