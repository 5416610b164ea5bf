// Measures the memory of a device: the bytes of pgmo, and the peak of their sum with the bytes of
// the framework's allocator.
//
//     windows, slots   allocations and frees       ─┐
//     pool             pages used for a block      ─┼─▶ sum ──▶ above the peak? ──▶ peak
//     adapter          usage of the framework's    ─┘
//                      allocator
//
// The adapter does not see when the framework's allocator frees a block. So the adapter's last
// figure may be too high. A sum above the peak stays unconfirmed until the adapter has asked the
// framework again. If the framework's allocator holds nothing, no confirmation is needed.
//
// Callers hold different locks, so all counters are atomic.

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "types.hpp"

namespace pgmo::pages {

struct Usage {
  Bytes bytes = 0;   // bytes of live blocks, each rounded as the framework rounds
  Bytes blocks = 0;  // number of live blocks
  Bytes pages = 0;   // bytes of pages, without pages that only a failed request created
};

class Meter {
 public:
  // The granularity in bytes to which the framework's allocator rounds its blocks.
  static constexpr Bytes kGranule = 512;
  static constexpr Bytes rounded(Bytes bytes) noexcept { return round_up(bytes, kGranule); }

  // Count a block of a window or a slot of a planned range, after its request has succeeded.
  void allocated(Bytes bytes) noexcept {
    const std::uint64_t added = word(bytes);
    const std::uint64_t living = living_.fetch_add(added, std::memory_order_relaxed) + added;
    note(kBytes, bytes_in(living) - asleep_.load(std::memory_order_relaxed));
    note(kBlocks, blocks_in(living));
  }
  void freed(Bytes bytes) noexcept { living_.fetch_sub(word(bytes), std::memory_order_relaxed); }

  // Add this many bytes of pages (negative: subtract).
  void pages_change(Bytes bytes) noexcept {
    const Bytes pages = pages_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (bytes > 0) note(kPages, pages);
  }

  // Add this many bytes of places that are asleep (negative: subtract).
  void asleep_change(Bytes bytes) noexcept {
    asleep_.fetch_add(bytes, std::memory_order_relaxed);
    if (bytes < 0) note(kBytes, now().bytes);
  }

  // Record that the framework's allocator has served a request. If this returns true, call
  // `confirm` with the allocator's usage. It returns false while pgmo has no pages, because the
  // framework's own peak is complete meanwhile.
  bool beneath_grew() noexcept {
    if (pages_.load(std::memory_order_relaxed) != 0) return true;
    for (auto& level : beneath_) level.store(kUnknown, std::memory_order_relaxed);
    return false;
  }

  // Set the current usage of the framework's allocator.
  void confirm(const Usage& beneath) noexcept {
    unconfirmed_.store(0, std::memory_order_relaxed);
    const std::array<Bytes, kQuantities> theirs = {beneath.bytes, beneath.blocks, beneath.pages};
    const std::array<Bytes, kQuantities> ours = levels();
    for (int at = 0; at < kQuantities; ++at) {
      beneath_[at].store(theirs[at], std::memory_order_relaxed);
      const Bytes highest = highest_[at].exchange(0, std::memory_order_relaxed);
      raise(peak_[at], std::max(highest, ours[at]) + theirs[at]);
    }
  }

  // Return a word that is not 0 while a peak waits for `confirm`. It lives as long as the meter.
  const std::uint32_t* unconfirmed() const noexcept {
    static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
    return reinterpret_cast<const std::uint32_t*>(&unconfirmed_);
  }

  // Return the current usage of pgmo alone. Its bytes exclude sleeping places.
  Usage now() const noexcept {
    const std::array<Bytes, kQuantities> ours = levels();
    return {ours[kBytes], ours[kBlocks], ours[kPages]};
  }
  // Return the bytes of live blocks of pgmo, including sleeping ones.
  Bytes living() const noexcept { return bytes_in(living_.load(std::memory_order_relaxed)); }

  // Return the confirmed peak since the last reset, including the framework's allocator.
  Usage peak() const noexcept {
    const auto read = [&](int at) { return peak_[at].load(std::memory_order_relaxed); };
    return {read(kBytes), read(kBlocks), read(kPages)};
  }

  // Set the peak to the current usage. Call `confirm` immediately before.
  void reset_peak() noexcept {
    const std::array<Bytes, kQuantities> ours = levels();
    for (int at = 0; at < kQuantities; ++at) {
      const Bytes beneath = beneath_[at].load(std::memory_order_relaxed);
      peak_[at].store(ours[at] + (beneath == kUnknown ? 0 : beneath), std::memory_order_relaxed);
      highest_[at].store(0, std::memory_order_relaxed);
    }
    unconfirmed_.store(0, std::memory_order_relaxed);
  }

 private:
  using Level = std::atomic<Bytes>;
  enum : std::uint8_t { kBytes, kBlocks, kPages, kQuantities };

  // Usage of the framework's allocator until the next `confirm`. Above any real usage, so that each
  // new level of pgmo waits for `confirm`.
  static constexpr Bytes kUnknown = Bytes{1} << 60;

  // The lower 40 bits count granules, up to 512 TiB; the bits above count up to 16 million blocks.
  static constexpr int kBlockBit = 40;
  static std::uint64_t word(Bytes bytes) noexcept {
    return (std::uint64_t{1} << kBlockBit) + static_cast<std::uint64_t>(rounded(bytes) / kGranule);
  }
  static Bytes bytes_in(std::uint64_t living) noexcept {
    return static_cast<Bytes>(living & ((std::uint64_t{1} << kBlockBit) - 1)) * kGranule;
  }
  static Bytes blocks_in(std::uint64_t living) noexcept {
    return static_cast<Bytes>(living >> kBlockBit);
  }

  std::array<Bytes, kQuantities> levels() const noexcept {
    const std::uint64_t living = living_.load(std::memory_order_relaxed);
    // Whole pages sleep, including gaps between blocks, so the difference can be negative.
    const Bytes awake = bytes_in(living) - asleep_.load(std::memory_order_relaxed);
    return {std::max<Bytes>(awake, 0), blocks_in(living), pages_.load(std::memory_order_relaxed)};
  }

  void note(int what, Bytes ours) noexcept {
    const Bytes beneath = beneath_[what].load(std::memory_order_relaxed);
    if (ours + beneath <= peak_[what].load(std::memory_order_relaxed)) [[likely]]
      return;
    if (beneath == 0) return raise(peak_[what], ours);
    raise(highest_[what], ours);
    unconfirmed_.store(1, std::memory_order_relaxed);
  }

  static void raise(Level& level, Bytes value) noexcept {
    Bytes known = level.load(std::memory_order_relaxed);
    while (value > known) {
      if (level.compare_exchange_weak(known, value, std::memory_order_relaxed)) break;
    }
  }

  std::atomic<std::uint64_t> living_{0};
  Level asleep_{0};
  Level pages_{0};
  std::array<Level, kQuantities> beneath_{};
  std::array<Level, kQuantities> peak_{};
  std::array<Level, kQuantities> highest_{};  // peak of pgmo alone, since the last `confirm`
  std::atomic<std::uint32_t> unconfirmed_{0};
};

}  // namespace pgmo::pages
