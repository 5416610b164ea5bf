// Orders in which exact search tries blocks. Whether the search succeeds depends on the order.

#pragma once

#include <cstdint>
#include <vector>

#include "packing/exact/window.hpp"

namespace pgmo::packing {

struct SearchOrder {
  std::vector<BlockId> blocks;  // the first is placed first; empty: no order
  // Blocks with the fullest section come first. The fullest section changes as blocks are placed,
  // so exact search sorts each part again when the part splits off.
  bool by_load = false;
};

// Return order number `index` of a window. The first orders succeed most often. All later orders
// are random and depend on the seed.
SearchOrder search_order(const Window& window, std::uint64_t seed, std::uint64_t index);

// Return a similar order: blocks move by up to a third of the order's length, mostly by much less.
SearchOrder similar_order(const SearchOrder& order, std::uint64_t seed, std::uint64_t index);

}  // namespace pgmo::packing
