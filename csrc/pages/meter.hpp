// Bytes that live, in windows and in slots together, and the most that they have ever been.
//
// Each side counts its own under its own lock and reads the other's, so that neither waits.

#pragma once

#include <atomic>

#include "types.hpp"

namespace pgmo::pages {

class Meter {
 public:
  // Each from under the lock of its side.
  void windows_have(Bytes bytes) noexcept { set(windows_, bytes, slots_); }
  void slots_have(Bytes bytes) noexcept { set(slots_, bytes, windows_); }

  Bytes windows() const noexcept { return windows_.load(std::memory_order_relaxed); }
  Bytes slots() const noexcept { return slots_.load(std::memory_order_relaxed); }
  Bytes peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
  void reset_peak() noexcept { peak_.store(windows() + slots(), std::memory_order_relaxed); }

 private:
  using Level = std::atomic<Bytes>;

  void set(Level& own, Bytes bytes, const Level& other) noexcept {
    own.store(bytes, std::memory_order_relaxed);
    const Bytes sum = bytes + other.load(std::memory_order_relaxed);
    Bytes peak = peak_.load(std::memory_order_relaxed);
    while (sum > peak) [[unlikely]] {
      if (peak_.compare_exchange_weak(peak, sum, std::memory_order_relaxed)) break;
    }
  }

  Level windows_{0};
  Level slots_{0};
  Level peak_{0};
};

}  // namespace pgmo::pages
