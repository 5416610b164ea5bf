// What an anytime search shares with whoever waits for it: the best answer so far, the bound
// proved so far, and when to stop.
//
//    bytes ^
//          |  arena ---.                  Any thread may lower the arena (with offsets) or raise
//          |           '---.______.      the bound; both are recorded with their time.
//          |    bound _____.------'      The search is over when they meet, when the deadline
//          |   ------'                    passes, or when somebody asks for it.
//          +----------------------> time

#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <vector>

#include "packing/packer.hpp"

namespace pgmo::packing {

using Clock = std::chrono::steady_clock;

// One improvement of the incumbent or of the bound.
struct Progress {
  double seconds;  // since the monitor was made
  Bytes arena, bound;
};

// All functions may be called from any thread.
class Monitor {
 public:
  // `offsets` is the incumbent to start from and needs `arena` bytes; no packing needs less than
  // `bound`. `deadline` is when stopped() becomes true.
  Monitor(Offsets offsets, Bytes arena, Bytes bound, Clock::time_point deadline);

  Bytes arena() const { return arena_.load(std::memory_order_relaxed); }
  Bytes bound() const { return bound_.load(std::memory_order_relaxed); }
  bool optimal() const { return arena() <= bound(); }

  // Whether to return now. Reads the clock: ask every few hundred steps.
  bool stopped() const;

  void stop() { stop_.store(true, std::memory_order_relaxed); }

  // Keeps the offsets if they need less than the incumbent.
  void offer(const Offsets& offsets, Bytes arena);

  // No packing needs less than `bound`: kept if it is above what was known.
  void raise_bound(Bytes bound);

  Offsets offsets() const;

  // What happened since the last call, in order.
  std::vector<Progress> take_progress();

  double seconds() const;

 private:
  void record();

  const Clock::time_point started_ = Clock::now();
  const Clock::time_point deadline_;
  std::atomic<bool> stop_{false};
  std::atomic<Bytes> arena_, bound_;
  mutable std::mutex mutex_;  // of what follows, and of every change of arena and bound
  Offsets offsets_;
  std::vector<Progress> progress_;
};

}  // namespace pgmo::packing
