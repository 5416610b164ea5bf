// Model of PyTorch's CUDA caching allocator: the model makes the same decisions, without a card.
//
//     request -- round --> best fit of its stream's pool -- none --> take memory from the driver
//                                |                                     |
//                              split                   no room: give cached memory back, retry
//
// Source of the rules: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11, as documented there and
// observed. Private pools (of graphs, or MemPools) are modelled only if pgmo serves them; for those
// that PyTorch serves beside pgmo, `set_private` sets the bytes. All sizes and addresses are in
// bytes; the addresses are invented. The allocator owns all blocks. Not thread-safe. Calls without
// noexcept may throw std::bad_alloc.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "baseline/block.hpp"
#include "baseline/pgmo_baseline.h"
#include "baseline/pool.hpp"

namespace pgmo::baseline {

constexpr Bytes kMiB = Bytes{1} << 20;
constexpr Bytes kUnlimited = Bytes{1} << 62;
constexpr Bytes kSmallSegment = 2 * kMiB;  // segment for requests up to 1 MiB

// Memory of the card.
struct CardMemory {
  Bytes capacity = kUnlimited;  // bytes that the allocator can use
  Bytes total = 0;              // bytes of the whole card; 0: unknown
};

// Return the size of the block that serves a request of `size` bytes.
Bytes rounded(Bytes size, const pgmo_baseline_settings& settings) noexcept;

class CachingAllocator {
 public:
  CachingAllocator(const pgmo_baseline_settings& settings, const CardMemory& card);

  // Set the fraction of the card that the program may use; negative: no limit. There is no limit
  // either if the size of the card is unknown.
  void set_fraction(double fraction) noexcept;

  // Set the bytes of private pools, which count as reserved. If the card has no room for them, give
  // cached memory back to the driver.
  void set_private(Bytes bytes);

  // Allocate a block. If there is no room, empty the cache and try again, except in a MemPool.
  // Return nullptr if there is still no room. `user_pool`: number of the MemPool; 0: none.
  Block* allocate(Bytes size, std::uint64_t stream, std::uint64_t user_pool = 0);

  // Free a block, which its stream can then reuse at once.
  void free(Block* block) noexcept;

  // `postpone` returns a number for a block that other streams may still use, and `settle` frees
  // the block with this number. `empty_cache` and `empty_pool` may free the block earlier, because
  // PyTorch then waits for all streams. `settle` then has no effect.
  std::uint64_t postpone(Block* block);
  void settle(std::uint64_t number) noexcept;

  // Free all postponed blocks, and give free memory back to the driver: whole segments, and whole
  // pages of expandable segments. MemPools that still have a user keep their free memory.
  void empty_cache();

  // Mark a MemPool as released by its last user.
  void release_pool(std::uint64_t user_pool) noexcept;

  // Give free memory of a released MemPool back to the driver. No effect on other MemPools.
  void empty_pool(std::uint64_t user_pool);

  // Add a segment that existed before the model began, and return its blocks in order. An
  // expandable segment gets a range of addresses of its own.
  std::vector<Block*> add_segment(std::uint64_t stream, bool small, bool expandable,
                                  std::span<const pgmo_baseline_piece> pieces);

  // Return the bytes taken from the driver, private pools included: now, and at the peak.
  Bytes reserved() const noexcept { return reserved_ + private_; }
  Bytes peak_reserved() const noexcept { return peak_reserved_; }
  // Return the bytes of blocks that are in use, or freed and not reusable yet.
  Bytes active() const noexcept { return active_; }
  // Return how often the whole cache was emptied because a request found no room.
  std::int64_t retries() const noexcept { return retries_; }

  template <typename Visit>
  void for_each_pool(Visit&& visit) const {
    for (const auto& pool : pools_) visit(*pool);
  }

 private:
  BlockPool& pool_of(std::uint64_t stream, std::uint64_t user_pool, bool small);
  template <typename Concerned>
  void give_back(Concerned&& concerned);
  Block* take_cached(BlockPool& pool, Bytes size) noexcept;
  Block* take_from_driver(BlockPool& pool, Bytes size);
  Block* grow(BlockPool& pool, Bytes size);
  Block* room_in(BlockPool& pool, Bytes size);
  Block* reserve(BlockPool& pool);
  bool map(Block* block, Bytes size);
  void unmap(Block* block);
  void release(Block* block) noexcept;
  bool release_oversize(BlockPool& pool, Bytes size) noexcept;
  void collect_garbage();
  void split(Block* block, Bytes size);
  void keep_free(Block* block) noexcept;
  void merge(Block* block) noexcept;
  void forget(Block* block) noexcept;
  void took(Bytes size) noexcept;
  void took_for(BlockPool& pool, Bytes size) noexcept;
  bool has_room(Bytes size, Bytes most) const noexcept { return reserved() + size <= most; }
  Block* new_block(BlockPool& pool, Bytes address, Bytes size, AddressSpace* space = nullptr);
  Bytes next_address(Bytes size) noexcept;

  pgmo_baseline_settings settings_;
  const CardMemory card_;
  BlockStore store_;
  std::vector<std::unique_ptr<BlockPool>> pools_;  // in pairs, the pool of small blocks first
  std::size_t last_pool_ = 0;                      // index of the pair used last
  std::unordered_map<AddressSpace*, std::unique_ptr<AddressSpace>> spaces_;
  std::unordered_map<std::uint64_t, Block*> postponed_;  // by number
  std::uint64_t next_number_ = 1;
  Bytes next_address_;
  Bytes reserved_ = 0;  // without private pools
  Bytes private_ = 0;
  Bytes peak_reserved_ = 0;
  Bytes active_ = 0;
  Bytes allowed_ = kUnlimited;            // reserved bytes that the fraction allows
  Bytes garbage_threshold_ = kUnlimited;  // reserved bytes above which garbage is collected
  std::int64_t retries_ = 0;
  std::int64_t searches_[2] = {0, 0};  // searches for a cached block: large, small
};

}  // namespace pgmo::baseline
