// Computes what plain PyTorch would reserve for the requests of this process, while they are made.
//
//     request, free ──▶ by address ──▶ CachingAllocator (a model) ──▶ peak of reserved bytes
//     pages, segments, private pools ──────────────────────────────▶ peak of the bytes taken
//
// Both sides include private pools and memory held before the start. Thread-safe; no other lock is
// taken under its lock.

#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "baseline/allocator.hpp"
#include "engine/memory/address_map.hpp"
#include "engine/spinlock.hpp"

namespace pgmo::baseline {

// Figures of one device; sizes in bytes, peaks since the model began.
struct Figures {
  Bytes reserved = 0;  // bytes that plain PyTorch would have now
  Bytes peak_reserved = 0;
  Bytes live = 0;  // requested and not freed
  Bytes peak_live = 0;
  Bytes taken = 0;  // bytes that the process has taken from the card
  Bytes peak_taken = 0;
  std::int64_t requests = 0;
  std::int64_t retries = 0;   // in the model: cached memory was given back to serve a request
  std::int64_t failures = 0;  // requests served here without room in the model
  bool broken = false;        // the host ran out of memory for the model
};

// Mark the calling thread's next requests as sums of two gradients, until unmarked. Autograd adds
// gradients in place, but allocates the sum while a dispatch mode is active, as pgmo's is in a
// tagged iteration. The model then reuses the block of the summand that is freed first.
void expect_gradient_sum(bool expected) noexcept;

class Baseline {
 public:
  Baseline(const Settings& settings, const CardMemory& card) : model_(settings, card) {}

  void set_fraction(double fraction) noexcept;

  // Note a request served at this address, by pgmo or by the allocator `beneath`. `user_pool`:
  // number of the program's pool; 0: none.
  void allocated(std::uintptr_t address, Bytes size, std::uint64_t stream, std::uint64_t user_pool,
                 bool beneath) noexcept;

  // Free the block. No effect if the other allocator has served it.
  void freed(std::uintptr_t address, bool beneath) noexcept;

  // Note that the program freed a block that other streams may still use. Return a number for
  // `settled`; 0 if the block is unknown.
  std::uint64_t postponed(std::uintptr_t address) noexcept;
  void settled(std::uint64_t number) noexcept;

  // Return whether pgmo served the block at this address on another stream.
  bool is_of_other_stream(std::uintptr_t address, std::uint64_t stream) noexcept;

  // Note a failed request. The model serves and frees it, since plain PyTorch may have had room.
  void failed(Bytes size, std::uint64_t stream) noexcept;

  // Note that the program empties its cache.
  void empty_cache() noexcept;

  // Note that the last user of a pool has gone, and that the program empties the cache of a pool.
  void release_pool(std::uint64_t user_pool) noexcept;
  void empty_pool(std::uint64_t user_pool) noexcept;

  // Change the bytes of private pools: of their segments, and of their blocks.
  void private_segments(Bytes change) noexcept;
  void private_blocks(Bytes change) noexcept;

  // Add bytes taken from the card. Does not take the lock.
  void took(Bytes change) noexcept;

  // A block of a segment that existed before the model began.
  struct Piece {
    std::uintptr_t address;
    Bytes size;
    Bytes requested;
    bool busy;
  };
  void add_segment(std::uint64_t stream, bool small, bool expandable,
                   const std::vector<Piece>& pieces) noexcept;

  Figures figures() noexcept;

  // Called around a fork, so that the child finds the lock free.
  void before_fork() noexcept { lock_.lock(); }
  void after_fork() noexcept { lock_.unlock(); }

 private:
  struct Entry {
    Block* block = nullptr;  // nullptr: there was no room in the model
    std::uint64_t requested : 63 = 0;
    std::uint64_t beneath : 1 = 0;
  };

  // A gradient sum, until the next change other than a free.
  struct GradientSum {
    std::uintptr_t address = 0;
    Bytes size = 0;
    std::uint64_t stream = 0;
    std::uint64_t user_pool = 0;
    Bytes freed = 0;              // requested bytes of the blocks freed since
    std::vector<Entry> summands;  // these blocks, in the order of their frees
  };

  // Run `change` under the lock. If host memory runs out, the model stops (`broken`).
  template <typename Change>
  void guarded(Change&& change) noexcept;
  template <typename Change>
  void guarded_free(Change&& change) noexcept;  // keeps the gradient sum open
  void allocate(std::uintptr_t address, Bytes size, std::uint64_t stream, std::uint64_t user_pool,
                bool beneath);
  void free_entry(std::uintptr_t address, const Entry& entry);
  void complete_sum();
  void gain(Bytes requested) noexcept;
  bool take_out(std::uintptr_t address, bool beneath, Entry& out) noexcept;

  Spinlock lock_;
  CachingAllocator model_;
  AddressMap<Entry> living_;
  std::optional<GradientSum> sum_;
  Figures counted_;
  Bytes private_ = 0;
  std::atomic<Bytes> taken_{0};
  std::atomic<Bytes> peak_taken_{0};
};

}  // namespace pgmo::baseline
