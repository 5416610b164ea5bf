// Blocks of modelled memory: parts of a segment that are in use, free, or not mapped.
//
//     | in use | free | in use | free        |      a segment
//     | in use | free | in use | not mapped ...     an expandable segment
//
// The blocks of a segment form a doubly linked list in address order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "types.hpp"

namespace pgmo::baseline {

class BlockPool;

// Addresses reserved for an expandable segment, in bytes. Memory is mapped in multiples of `page`.
struct AddressSpace {
  Bytes address = 0;
  Bytes size = 0;
  Bytes page = 0;
};

struct Block {
  Bytes address = 0;
  Bytes size = 0;
  std::int64_t freed_at = 0;  // the allocator's count of searches when the block was freed
  BlockPool* pool = nullptr;
  Block* preceding = nullptr;  // neighbours in the segment
  Block* following = nullptr;
  Block* left = nullptr;  // children in the pool's tree of free blocks
  Block* right = nullptr;
  AddressSpace* space = nullptr;  // nullptr: not in an expandable segment
  std::uint32_t priority = 0;     // in the tree of free blocks
  bool busy = false;
  bool mapped = true;

  bool is_whole_segment() const noexcept { return preceding == nullptr && following == nullptr; }

  void link_between(Block* before, Block* after) noexcept {
    preceding = before;
    following = after;
    if (before != nullptr) before->following = this;
    if (after != nullptr) after->preceding = this;
  }
};

// Owner of all blocks, which it recycles. Its memory grows with the largest number of blocks in
// use, and is freed with the store.
class BlockStore {
 public:
  // Return a block with a new random priority. Throws std::bad_alloc.
  Block* make() {
    if (spare_ == nullptr) grow();
    Block* const block = spare_;
    spare_ = block->following;
    *block = {};
    random_ ^= random_ << 13;
    random_ ^= random_ >> 17;
    random_ ^= random_ << 5;
    block->priority = random_;
    return block;
  }

  void drop(Block* block) noexcept {
    block->following = spare_;
    spare_ = block;
  }

 private:
  static constexpr std::size_t kChunk = 256;

  void grow() {
    auto chunk = std::make_unique<Block[]>(kChunk);
    chunks_.push_back(std::move(chunk));
    for (std::size_t at = 0; at < kChunk; ++at) drop(&chunks_.back()[at]);
  }

  std::vector<std::unique_ptr<Block[]>> chunks_;
  Block* spare_ = nullptr;
  std::uint32_t random_ = 0x9E3779B9u;
};

}  // namespace pgmo::baseline
