// Computes, during a run, what plain PyTorch would reserve for the requests of this process.
// "Beneath" means PyTorch's own allocator, which pgmo wraps.
//
//     request, free ──▶ by address ──▶ CachingAllocator (a model) ──▶ peak of reserved bytes
//     pages, segments, private pools ──────────────────────────────▶ peak of the bytes taken
//
// Both peaks include private pools, and memory that PyTorch had reserved before the start.
// Thread-safe: each call except `took` takes the lock, under which no other lock is taken. No call
// throws.

#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "baseline/allocator.hpp"
#include "baseline/pgmo_baseline.h"
#include "engine/memory/address_map.hpp"
#include "engine/spinlock.hpp"

namespace pgmo::baseline {

// Figures of one device; sizes in bytes, peaks since the model began.
struct Figures {
  Bytes reserved = 0;  // what plain PyTorch would have reserved now
  Bytes peak_reserved = 0;
  Bytes live = 0;  // requested and not freed
  Bytes peak_live = 0;
  Bytes taken = 0;  // bytes that the process has taken from the card
  Bytes peak_taken = 0;
  std::int64_t requests = 0;
  std::int64_t retries = 0;   // times that the model gave cached memory back to serve a request
  std::int64_t failures = 0;  // requests that were served, but for which the model had no room
  bool broken = false;        // the model has stopped, because the host ran out of memory
};

class Baseline {
 public:
  Baseline(const Settings& settings, const CardMemory& card) : model_(settings, card) {}

  void set_fraction(double fraction) noexcept;

  // Record a request that was served at this address, by PyTorch's allocator (`beneath`) or by
  // pgmo. `user_pool`: number of the program's MemPool; 0: none.
  void allocated(std::uintptr_t address, Bytes size, std::uint64_t stream, std::uint64_t user_pool,
                 bool beneath) noexcept;

  // Record the free of a block. No effect if its request was recorded with another `beneath`.
  void freed(std::uintptr_t address, bool beneath) noexcept;

  // Record the free of a block of pgmo that other streams may still use. Return a number for
  // `settled`, to be called when these streams have done their work; 0 if the block is unknown.
  std::uint64_t postponed(std::uintptr_t address) noexcept;
  void settled(std::uint64_t number) noexcept;

  // Return whether pgmo served the block at this address, on another stream than `stream`.
  bool is_of_other_stream(std::uintptr_t address, std::uint64_t stream) noexcept;

  // Record a failed request. The model allocates and frees it, because plain PyTorch might have had
  // room.
  void failed(Bytes size, std::uint64_t stream) noexcept;

  // Empty the model's cache, as the program has done.
  void empty_cache() noexcept;

  // Release a MemPool after its last user (`release_pool`), or empty its cache (`empty_pool`).
  void release_pool(std::uint64_t user_pool) noexcept;
  void empty_pool(std::uint64_t user_pool) noexcept;

  // Change the bytes of private pools that PyTorch serves: of their segments, or of their live
  // blocks.
  void private_segments(Bytes change) noexcept;
  void private_blocks(Bytes change) noexcept;

  // Add bytes taken from the card (negative: given back). Does not take the lock.
  void took(Bytes change) noexcept;

  // Add a segment that existed before the model began, with its blocks in the order of addresses.
  void add_segment(std::uint64_t stream, bool small, bool expandable,
                   std::span<const pgmo_baseline_piece> pieces) noexcept;

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

  // Run `change` under the lock. If host memory runs out, the model stops (`broken`).
  template <typename Change>
  void guarded(Change&& change) noexcept;
  void add_live(Bytes requested) noexcept;
  bool take_out(std::uintptr_t address, bool beneath, Entry& out) noexcept;

  Spinlock lock_;
  CachingAllocator model_;
  AddressMap<Entry> living_;
  Figures counted_;
  Bytes private_ = 0;
  std::atomic<Bytes> taken_{0};
  std::atomic<Bytes> peak_taken_{0};
};

}  // namespace pgmo::baseline
