// Free blocks of one stream and one MemPool (or none). A pool serves either requests up to 1 MiB
// ("small") or larger requests.

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
  BlockPool(std::uint64_t its_stream, std::uint64_t its_user_pool, bool is_small)
      : stream(its_stream), user_pool(its_user_pool), small(is_small) {}

  // Call `visit` with each free block, sorted by size and address.
  template <typename Visit>
  void for_each_free(Visit&& visit) const {
    for (Block* block = free.at_least(1); block != nullptr; block = free.after(*block)) {
      visit(block);
    }
  }

  const std::uint64_t stream;
  const std::uint64_t user_pool;  // number of the program's MemPool; 0: none
  const bool small;
  bool released = false;  // the MemPool has no user any more
  Bytes held = 0;         // bytes of its segments that are mapped
  FreeBlocks free;
  std::set<Block*, ByAddress> unmapped;  // blocks of expandable segments without memory
};

}  // namespace pgmo::baseline
