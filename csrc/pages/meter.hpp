// Bytes that live, in windows and in slots together, and the most that they have ever been.
//
// Windows are counted under one lock, the slots of each engine under its own; none waits for
// another.

#pragma once

#include <atomic>

#include "types.hpp"

namespace pgmo::pages {

class Meter {
 public:
  // From under the lock of the windows.
  void windows_have(Bytes bytes) noexcept {
    windows_.store(bytes, std::memory_order_relaxed);
    note(bytes + slots());
  }

  // Of one engine, more than when it last said so.
  void slots_gain(Bytes bytes) noexcept {
    note(slots_.fetch_add(bytes, std::memory_order_relaxed) + bytes + windows());
  }

  Bytes windows() const noexcept { return windows_.load(std::memory_order_relaxed); }
  Bytes slots() const noexcept { return slots_.load(std::memory_order_relaxed); }
  Bytes peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
  void reset_peak() noexcept { peak_.store(windows() + slots(), std::memory_order_relaxed); }

 private:
  using Level = std::atomic<Bytes>;

  void note(Bytes sum) noexcept {
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
