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

// The model of one device. Its functions are those of the table in pgmo_baseline.h.
class Baseline {
 public:
  Baseline(const pgmo_baseline_settings& settings, const CardMemory& card)
      : model_(settings, card) {
    counted_.card = card.total;
  }

  void set_fraction(double fraction) noexcept;
  void allocated(std::uintptr_t address, Bytes size, std::uint64_t stream, std::uint64_t user_pool,
                 bool beneath) noexcept;
  void freed(std::uintptr_t address, bool beneath) noexcept;
  std::uint64_t postponed(std::uintptr_t address) noexcept;
  void settled(std::uint64_t number) noexcept;
  bool is_of_other_stream(std::uintptr_t address, std::uint64_t stream) noexcept;
  void failed(Bytes size, std::uint64_t stream) noexcept;
  void empty_cache() noexcept;
  void release_pool(std::uint64_t user_pool) noexcept;
  void empty_pool(std::uint64_t user_pool) noexcept;
  void private_segments(Bytes change) noexcept;
  void private_blocks(Bytes change) noexcept;
  void took(Bytes change) noexcept;
  void add_segment(std::uint64_t stream, bool small, bool expandable,
                   std::span<const pgmo_baseline_piece> pieces) noexcept;
  pgmo_baseline_figures figures() noexcept;

  // Called around a fork, so that the child finds the lock free.
  void before_fork() noexcept { lock_.lock(); }
  void after_fork() noexcept { lock_.unlock(); }

 private:
  struct Entry {
    Block* block = nullptr;            // nullptr: there was no room in the model
    std::uint64_t requested : 63 = 0;  // bytes
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
  pgmo_baseline_figures counted_{};
  Bytes private_ = 0;
  std::atomic<Bytes> taken_{0};
  std::atomic<Bytes> peak_taken_{0};
};

// Return the function table of pgmo_baseline.h.
const pgmo_baseline_api* baseline_api() noexcept;

}  // namespace pgmo::baseline
