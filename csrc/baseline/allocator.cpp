#include "baseline/allocator.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "checks.hpp"

namespace pgmo::baseline {
namespace {

constexpr Bytes kUnit = 512;        // bytes; sizes of blocks are multiples of it
constexpr Bytes kSmallSize = kMiB;  // bytes; larger requests use the pool of large blocks
// From this many bytes on, a new segment has the size of its request, rounded up to kRoundLarge.
constexpr Bytes kOwnSegment = 10 * kMiB;
constexpr Bytes kRoundLarge = 2 * kMiB;
constexpr Bytes kGranularity = 2 * kMiB;         // addresses of segments are multiples of it
constexpr Bytes kFirstAddress = Bytes{1} << 45;  // address of the first segment; arbitrary

// Return the size that a free block has once all unmapped memory behind it is mapped.
Bytes potential(const Block& block) noexcept {
  const Block* const after = block.following;
  return block.size + (after != nullptr && !after->mapped ? after->size : 0);
}

}  // namespace

Bytes rounded(Bytes size, const pgmo_baseline_settings& settings) noexcept {
  if (size < kUnit) return kUnit;
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size)));
  constexpr int kIntervals = std::size(decltype(settings.roundup_power2_divisions){});
  const int interval = std::min(std::max(0, bits - 21), kIntervals - 1);
  const Bytes steps = settings.roundup_power2_divisions[interval];
  if (steps <= 1 || size <= kUnit * steps) return (size + kUnit - 1) & ~(kUnit - 1);
  return round_up(size, (Bytes{1} << (bits - 1)) / steps);
}

CachingAllocator::CachingAllocator(const pgmo_baseline_settings& settings, const CardMemory& card)
    : settings_(settings), card_(card), next_address_(kFirstAddress) {
  if (settings_.max_split_size <= 0) settings_.max_split_size = kUnlimited;
}

void CachingAllocator::set_fraction(double fraction) noexcept {
  allowed_ = garbage_threshold_ = kUnlimited;
  if (fraction < 0 || card_.total == 0) return;
  allowed_ = static_cast<Bytes>(fraction * static_cast<double>(card_.total));
  const double threshold = settings_.garbage_collection_threshold;
  if (threshold > 0)
    garbage_threshold_ = static_cast<Bytes>(threshold * static_cast<double>(allowed_));
}

void CachingAllocator::set_private(Bytes bytes) {
  const Bytes more = bytes - private_;
  if (more > 0 && !has_room(more, std::min(allowed_, card_.capacity))) {
    ++retries_;
    empty_cache();
  }
  private_ = bytes;
  took(0);
}

Block* CachingAllocator::allocate(Bytes size, std::uint64_t stream, std::uint64_t user_pool) {
  size = rounded(size, settings_);
  BlockPool& pool = pool_of(stream, user_pool, size <= kSmallSize);
  Block* block = take_cached(pool, size);
  if (block == nullptr) {
    if (garbage_threshold_ != kUnlimited) collect_garbage();
    block = take_from_driver(pool, size);
    if (block == nullptr && settings_.max_split_size < kUnlimited && release_oversize(pool, size)) {
      block = take_from_driver(pool, size);
    }
    // While the program uses a MemPool, PyTorch keeps cached memory, as in a capture.
    if (block == nullptr && user_pool == 0) {
      ++retries_;
      empty_cache();
      block = take_from_driver(pool, size);
    }
    if (block == nullptr) return nullptr;
  }
  const Bytes remaining = block->size - size;
  const bool splits = pool.small || settings_.expandable_segments != 0
                          ? remaining >= kUnit
                          : remaining > kSmallSize && size < settings_.max_split_size;
  if (splits) split(block, size);
  block->busy = true;
  active_ += block->size;
  return block;
}

void CachingAllocator::free(Block* block) noexcept {
  PGMO_ASSERT(block->busy && block->mapped);
  active_ -= block->size;
  block->busy = false;
  merge(block);
  keep_free(block);
}

std::uint64_t CachingAllocator::postpone(Block* block) {
  postponed_.emplace(next_number_, block);
  return next_number_++;
}

void CachingAllocator::settle(std::uint64_t number) noexcept {
  const auto found = postponed_.find(number);
  if (found == postponed_.end()) return;
  Block* const block = found->second;
  postponed_.erase(found);
  free(block);
}

void CachingAllocator::empty_cache() {
  while (!postponed_.empty()) settle(postponed_.begin()->first);
  give_back([](const BlockPool& pool) { return pool.user_pool == 0 || pool.released; });
}

void CachingAllocator::release_pool(std::uint64_t user_pool) noexcept {
  for (const auto& pool : pools_) {
    if (user_pool != 0 && pool->user_pool == user_pool) pool->released = true;
  }
}

void CachingAllocator::empty_pool(std::uint64_t user_pool) {
  const auto concerned = [&](const BlockPool& pool) {
    return pool.released && pool.user_pool == user_pool;
  };
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, block] : postponed_) {
    if (concerned(*block->pool)) numbers.push_back(number);
  }
  for (const std::uint64_t number : numbers) settle(number);
  give_back(concerned);
}

// Give free memory of the pools for which `concerned` returns true back to the driver. Forget
// released pools that hold no memory.
template <typename Concerned>
void CachingAllocator::give_back(Concerned&& concerned) {
  std::vector<Block*> blocks;
  for (const bool small : {false, true}) {
    blocks.clear();
    for (const auto& pool : pools_) {
      if (pool->small != small || !concerned(*pool)) continue;
      pool->for_each_free([&](Block* one) { blocks.push_back(one); });
    }
    for (Block* const block : blocks) {
      if (block->space != nullptr) {
        unmap(block);
      } else if (block->is_whole_segment()) {
        release(block);
      }
    }
  }
  const auto gone = [](const auto& pool) { return pool->released && pool->held == 0; };
  for (std::size_t at = 0; at < pools_.size();) {
    if (gone(pools_[at]) && gone(pools_[at + 1])) {
      const auto first = pools_.begin() + static_cast<std::ptrdiff_t>(at);
      pools_.erase(first, first + 2);
    } else {
      at += 2;
    }
  }
}

std::vector<Block*> CachingAllocator::add_segment(std::uint64_t stream, bool small, bool expandable,
                                                  std::span<const pgmo_baseline_piece> pieces) {
  BlockPool& pool = pool_of(stream, 0, small);
  Bytes size = 0;
  for (const pgmo_baseline_piece& piece : pieces) size += piece.size;
  Block* last = nullptr;
  Bytes address = 0;
  AddressSpace* space = nullptr;
  if (expandable) {
    last = reserve(pool);
    space = last->space;
    address = space->address;
    // The mapped blocks come first in the range; the memory behind them stays unmapped.
    pool.unmapped.erase(last);
    last->address += size;
    last->size -= size;
    pool.unmapped.insert(last);
  } else {
    address = next_address(size);
  }
  std::vector<Block*> blocks;
  Block* before = nullptr;
  for (const pgmo_baseline_piece& piece : pieces) {
    Block* const block = new_block(pool, address, piece.size, space);
    block->link_between(before, last);
    block->busy = piece.busy != 0;
    if (block->busy) {
      active_ += piece.size;
    } else {
      keep_free(block);
    }
    blocks.push_back(block);
    before = block;
    address += piece.size;
  }
  took_for(pool, size);
  return blocks;
}

BlockPool& CachingAllocator::pool_of(std::uint64_t stream, std::uint64_t user_pool, bool small) {
  const auto wanted = [&](const BlockPool& pool) {
    return pool.stream == stream && pool.user_pool == user_pool;
  };
  if (last_pool_ < pools_.size() && wanted(*pools_[last_pool_])) {
    return *pools_[last_pool_ + (small ? 0 : 1)];
  }
  for (last_pool_ = 0; last_pool_ < pools_.size(); last_pool_ += 2) {
    if (wanted(*pools_[last_pool_])) return *pools_[last_pool_ + (small ? 0 : 1)];
  }
  pools_.reserve(pools_.size() + 2);
  auto small_one = std::make_unique<BlockPool>(stream, user_pool, true);
  auto large_one = std::make_unique<BlockPool>(stream, user_pool, false);
  pools_.push_back(std::move(small_one));
  pools_.push_back(std::move(large_one));
  return *pools_[last_pool_ + (small ? 0 : 1)];
}

// Remove the best fit for a size from the pool's free blocks and return it. Return nullptr if no
// free block may serve the size.
Block* CachingAllocator::take_cached(BlockPool& pool, Bytes size) noexcept {
  if (garbage_threshold_ != kUnlimited) ++searches_[pool.small ? 1 : 0];
  Block* block = pool.free.at_least(size);
  if (block == nullptr) return nullptr;
  // A free block before unmapped memory counts with that memory. So a growing end is used last.
  while (block->space != nullptr) {
    Block* const other = pool.free.after(*block);
    if (other == nullptr || potential(*other) >= potential(*block)) break;
    block = other;
  }
  const Bytes most = settings_.max_split_size;
  const bool too_large =
      size < most ? block->size >= most : block->size >= size + settings_.max_non_split_rounding;
  if (too_large) return nullptr;
  pool.free.remove(block);
  return block;
}

// Take memory from the driver. Return a block of at least `size` bytes that is not among the free
// blocks; nullptr if there is no room.
Block* CachingAllocator::take_from_driver(BlockPool& pool, Bytes size) {
  Bytes segment = kSmallSegment;
  if (size > kSmallSize) {
    segment = size < kOwnSegment ? settings_.large_segment_size : round_up(size, kRoundLarge);
  }
  if (!has_room(segment, allowed_)) return nullptr;
  if (settings_.expandable_segments != 0) return grow(pool, size);
  if (!has_room(segment, card_.capacity)) return nullptr;
  Block* const block = new_block(pool, next_address(segment), segment);
  took_for(pool, segment);
  return block;
}

void CachingAllocator::release(Block* block) noexcept {
  reserved_ -= block->size;
  block->pool->held -= block->size;
  block->pool->free.remove(block);
  store_.drop(block);
}

// Give back one cached segment that is large enough for a request, or several of the largest
// segments. Return whether the released bytes suffice. Blocks of expandable segments stay.
bool CachingAllocator::release_oversize(BlockPool& pool, Bytes size) noexcept {
  const Bytes wanted = std::max(size, settings_.max_split_size);
  Block* const block = pool.free.at_least(wanted);
  if (block != nullptr && block->space == nullptr) {
    release(block);
    return true;
  }
  Bytes released = 0;
  while (released < wanted) {
    Block* const largest = pool.free.largest();
    if (largest == nullptr || largest->size < settings_.max_split_size) break;
    if (largest->space != nullptr) break;
    released += largest->size;
    release(largest);
  }
  return released >= wanted;
}

// Give back free segments of large blocks until reserved memory is below the threshold, but only
// those unused for at least the average time. Time is counted in searches for a cached block.
void CachingAllocator::collect_garbage() {
  const Bytes target = reserved() - garbage_threshold_;
  if (target <= 0) return;
  const std::int64_t now = searches_[0];
  std::vector<Block*> candidates;
  std::int64_t age = 0;
  for (const auto& pool : pools_) {
    if (pool->small || pool->user_pool != 0) continue;
    pool->for_each_free([&](Block* block) {
      if (!block->is_whole_segment() || block->space != nullptr) return;
      candidates.push_back(block);
      age += now - block->freed_at;
    });
  }
  Bytes reclaimed = 0;
  while (reclaimed < target && !candidates.empty()) {
    const double average = static_cast<double>(age) / static_cast<double>(candidates.size());
    const auto young = std::partition(candidates.begin(), candidates.end(), [&](const Block* one) {
      return static_cast<double>(now - one->freed_at) < average;
    });
    if (young == candidates.end()) return;
    for (auto old = young; old != candidates.end(); ++old) {
      reclaimed += (*old)->size;
      age -= now - (*old)->freed_at;
      release(*old);
    }
    candidates.erase(young, candidates.end());
  }
}

// Shrink a block to a size; the remainder becomes a free block.
void CachingAllocator::split(Block* block, Bytes size) {
  Block* const rest =
      new_block(*block->pool, block->address + size, block->size - size, block->space);
  rest->link_between(block, block->following);
  block->size = size;
  keep_free(rest);
}

void CachingAllocator::keep_free(Block* block) noexcept {
  block->freed_at = searches_[block->pool->small ? 1 : 0];
  block->pool->free.insert(block);
}

// Merge a block with free neighbours that are mapped (or unmapped) like it. The block must not be
// among the free or unmapped blocks yet.
void CachingAllocator::merge(Block* block) noexcept {
  Block* const before = block->preceding;
  Block* const after = block->following;
  if (before != nullptr && !before->busy && before->mapped == block->mapped) {
    forget(before);
    block->address = before->address;
    block->size += before->size;
    block->link_between(before->preceding, after);
    store_.drop(before);
  }
  if (after != nullptr && !after->busy && after->mapped == block->mapped) {
    forget(after);
    block->size += after->size;
    block->link_between(block->preceding, after->following);
    store_.drop(after);
  }
}

// Remove a block from the free or unmapped blocks.
void CachingAllocator::forget(Block* block) noexcept {
  if (block->mapped) {
    block->pool->free.remove(block);
  } else {
    block->pool->unmapped.erase(block);
  }
}

// Count bytes taken from the driver.
void CachingAllocator::took(Bytes size) noexcept {
  reserved_ += size;
  peak_reserved_ = std::max(peak_reserved_, reserved());
}

void CachingAllocator::took_for(BlockPool& pool, Bytes size) noexcept {
  pool.held += size;
  took(size);
}

Block* CachingAllocator::new_block(BlockPool& pool, Bytes address, Bytes size,
                                   AddressSpace* space) {
  Block* const block = store_.make();
  block->pool = &pool;
  block->address = address;
  block->size = size;
  block->space = space;
  return block;
}

// Return the address after the previous segment, because the driver's rule is not known.
Bytes CachingAllocator::next_address(Bytes size) noexcept {
  const Bytes address = next_address_;
  next_address_ += round_up(size, kGranularity);
  return address;
}

}  // namespace pgmo::baseline
