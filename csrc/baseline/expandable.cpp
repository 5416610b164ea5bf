// Expandable segments of the model: addresses are reserved once, memory is mapped there as needed.

#include <algorithm>
#include <memory>
#include <utility>

#include "baseline/allocator.hpp"

namespace pgmo::baseline {
namespace {

constexpr Bytes kUnboundedSpace = Bytes{1} << 46;  // bytes of a range on a card of unknown size

}  // namespace

// Map the memory that a request lacks, at the lowest addresses with room. Return a block of at
// least `size` bytes that is not among the free blocks. If the card is full, return nullptr; memory
// mapped before stays mapped and free.
Block* CachingAllocator::grow(BlockPool& pool, Bytes size) {
  Block* block = room_in(pool, size);
  if (!block->mapped && !map(block, std::min(block->size, size))) return nullptr;
  while (block->size < size) {
    Block* const following = block->following;
    const Bytes missing = size - block->size;
    if (following == nullptr || !map(following, std::min(missing, following->size))) {
      return nullptr;
    }
    block = following;
  }
  pool.free.remove(block);
  return block;
}

// Find adjacent free or unmapped blocks that together have room for a request, and return the first
// of these blocks. If there are none, reserve addresses.
Block* CachingAllocator::room_in(BlockPool& pool, Bytes size) {
  for (Block* block : pool.unmapped) {
    Block* const before = block->preceding;
    if (before != nullptr && !before->busy) block = before;
    Bytes found = 0;
    for (const Block* part = block; part != nullptr && !part->busy && found < size;
         part = part->following) {
      found += part->size;
    }
    if (found >= size) return block;
  }
  return reserve(pool);
}

// Reserve addresses for an expandable segment: an unmapped block of 9/8 of the card, like PyTorch.
Block* CachingAllocator::reserve(BlockPool& pool) {
  const Bytes page = pool.small ? kSmallSegment : settings_.large_segment_size;
  const Bytes wanted = card_.total == 0 ? kUnboundedSpace : card_.total + card_.total / 8;
  const Bytes size = round_up(wanted, page);
  auto space = std::make_unique<AddressSpace>(AddressSpace{next_address(size), size, page});
  Block* const block = new_block(pool, space->address, size, space.get());
  block->mapped = false;
  pool.unmapped.insert(block);
  spaces_.emplace(block->space, std::move(space));
  return block;
}

// Map `size` bytes, rounded up to pages, at the start of an unmapped block. Merge them with free
// neighbours, and add the result to the free blocks. Return false if the card is full.
bool CachingAllocator::map(Block* block, Bytes size) {
  BlockPool& pool = *block->pool;
  size = round_up(size, block->space->page);
  if (!has_room(size, card_.capacity)) return false;
  pool.unmapped.erase(block);
  block->mapped = true;
  if (size < block->size) {
    Block* const rest = new_block(pool, block->address + size, block->size - size, block->space);
    rest->mapped = false;
    rest->link_between(block, block->following);
    pool.unmapped.insert(rest);
    block->size = size;
  }
  took_for(pool, size);
  merge(block);
  keep_free(block);
  return true;
}

// Unmap the whole pages of a free block. The remainders stay free.
void CachingAllocator::unmap(Block* block) {
  BlockPool& pool = *block->pool;
  AddressSpace* const space = block->space;
  const Bytes end = block->address + block->size;
  const Bytes first = space->address + round_up(block->address - space->address, space->page);
  const Bytes last = space->address + (end - space->address) / space->page * space->page;
  if (first >= last) return;
  pool.free.remove(block);
  if (first > block->address) {
    Block* const before = new_block(pool, block->address, first - block->address, space);
    before->link_between(block->preceding, block);
    keep_free(before);
  }
  if (end > last) {
    Block* const after = new_block(pool, last, end - last, space);
    after->link_between(block, block->following);
    keep_free(after);
  }
  block->address = first;
  block->size = last - first;
  block->mapped = false;
  reserved_ -= block->size;
  pool.held -= block->size;
  merge(block);
  if (!block->is_whole_segment()) {
    pool.unmapped.insert(block);
    return;
  }
  spaces_.erase(space);  // nothing is mapped there any more
  store_.drop(block);
}

}  // namespace pgmo::baseline
