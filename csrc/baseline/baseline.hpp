// What plain PyTorch would reserve for the requests of this process, while they are made.
//
//     request, free ──▶ by address ──▶ CachingAllocator (a model) ──▶ peak of reserved bytes
//     pages, segments, private pools ──────────────────────────────▶ peak of the bytes taken
//
// Both sides count private pools, and whatever was there before. Every call may come from any
// thread; the lock is a leaf: nothing is called while it is held.

#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "baseline/allocator.hpp"
#include "engine/memory/address_map.hpp"
#include "engine/spinlock.hpp"

namespace pgmo::baseline {

// Of one device; sizes in bytes, peaks since the model began.
struct Figures {
  Bytes reserved = 0;  // that plain PyTorch would have now
  Bytes peak_reserved = 0;
  Bytes live = 0;  // requested and not freed
  Bytes peak_live = 0;
  Bytes taken = 0;  // that the process has taken from the card now
  Bytes peak_taken = 0;
  std::int64_t requests = 0;
  std::int64_t retries = 0;   // of the model: cached memory was given back to serve a request
  std::int64_t failures = 0;  // requests that were served here and have no room in the model
  bool broken = false;        // the host had no memory for the model
};

class Baseline {
 public:
  Baseline(const Settings& settings, const CardMemory& card) : model_(settings, card) {}

  void set_fraction(double fraction) noexcept;

  // A request was served at this address, by pgmo or by the allocator `beneath`.
  void allocated(std::uintptr_t address, Bytes size, std::uint64_t stream, bool beneath) noexcept;

  // Frees the block. No effect if the other allocator has served it.
  void freed(std::uintptr_t address, bool beneath) noexcept;

  // The program has freed it, but other streams may still use it. Returns a number for `settled`;
  // 0: the block is not known.
  std::uint64_t postponed(std::uintptr_t address) noexcept;
  void settled(std::uint64_t number) noexcept;

  // Whether pgmo served the block at this address on another stream.
  bool is_of_other_stream(std::uintptr_t address, std::uint64_t stream) noexcept;

  // A request that failed. The model serves and frees it, since plain PyTorch may have had room.
  void failed(Bytes size, std::uint64_t stream) noexcept;

  // The program has asked for its cache to be emptied.
  void empty_cache() noexcept;

  // Changes the bytes of private pools: their segments and their blocks.
  void private_segments(Bytes change) noexcept;
  void private_blocks(Bytes change) noexcept;

  // The process has taken so many bytes more from the card; any thread, without the lock.
  void took(Bytes change) noexcept;

  // A block of a segment that was there before.
  struct Piece {
    std::uintptr_t address;
    Bytes size;
    Bytes requested;
    bool busy;
  };
  void add_segment(std::uint64_t stream, bool small, bool expandable,
                   const std::vector<Piece>& pieces) noexcept;

  Figures figures() noexcept;

  // Around a fork, so that the child finds the lock free.
  void before_fork() noexcept { lock_.lock(); }
  void after_fork() noexcept { lock_.unlock(); }

 private:
  struct Entry {
    Block* block = nullptr;  // nullptr: there was no room in the model
    std::uint64_t requested : 63 = 0;
    std::uint64_t beneath : 1 = 0;
  };

  // Runs `change` under the lock. If host memory runs out, the model stops (`broken`).
  template <typename Change>
  void guarded(Change&& change) noexcept;
  void gain(Bytes requested) noexcept;
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
