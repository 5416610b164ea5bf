// The free blocks of one stream, for requests up to 1 MiB ("small") or above.

#pragma once

#include <cstdint>
#include <set>

#include "baseline/block.hpp"
#include "baseline/free_blocks.hpp"

namespace pgmo::baseline {

struct ByAddress {
  bool operator()(const Block* one, const Block* other) const noexcept {
    return one->address < other->address;
  }
};

class BlockPool {
 public:
  BlockPool(std::uint64_t its_stream, bool is_small) : stream(its_stream), small(is_small) {}

  // Call `visit` with each free block, sorted by size and address.
  template <typename Visit>
  void for_each_free(Visit&& visit) const {
    for (Block* block = free.at_least(1); block != nullptr; block = free.after(*block)) {
      visit(block);
    }
  }

  const std::uint64_t stream;
  const bool small;
  FreeBlocks free;
  std::set<Block*, ByAddress> unmapped;  // parts of expandable segments without memory
};

}  // namespace pgmo::baseline
