// The orders in which exact search tries blocks: it lives or dies by them, and none is always good.

#pragma once

#include <cstdint>
#include <vector>

#include "packing/exact/window.hpp"

namespace pgmo::packing {

struct SearchOrder {
  std::vector<BlockId> blocks;  // those to be placed first in front; empty: no order
  // Blocks whose fullest section holds most come first. Which section that is changes as blocks are
  // placed, so exact search orders each part that falls off anew.
  bool by_load = false;
};

// Order number `index` of a window: the first few are the ones that have proved good most often,
// the rest are drawn at random, the same ones for one seed.
SearchOrder search_order(const Window& window, std::uint64_t seed, std::uint64_t index);

// An order like the given one: blocks move by up to a third of it, mostly by far less.
SearchOrder similar_order(const SearchOrder& order, std::uint64_t seed, std::uint64_t index);

}  // namespace pgmo::packing
