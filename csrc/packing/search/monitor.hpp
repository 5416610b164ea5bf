// State that an anytime search shares with its caller: the best packing so far, the proved bound,
// and the request to stop.
//
//    bytes ^
//          |  arena ---.                  Any thread may lower the arena (with offsets) or raise
//          |           '---.______.      the bound; both are recorded with their time.
//          |    bound _____.------'      The search ends when arena and bound meet, when the
//          |   ------'                    deadline passes, or on request.
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
  double seconds;  // time since the monitor was created
  Bytes arena, bound;
};

// Thread-safe.
class Monitor {
 public:
  // `offsets` is the incumbent to start from, which needs `arena` bytes; no packing needs less than
  // `bound`. After `deadline`, stopped() returns true.
  Monitor(Offsets offsets, Bytes arena, Bytes bound, Clock::time_point deadline);

  Bytes arena() const { return arena_.load(std::memory_order_relaxed); }
  Bytes bound() const { return bound_.load(std::memory_order_relaxed); }

  // Return whether the search should end now. Reads the clock: call it every few hundred steps.
  bool stopped() const;

  void stop() { stop_.store(true, std::memory_order_relaxed); }

  // Keep the offsets if they need fewer bytes than the incumbent.
  void offer(const Offsets& offsets, Bytes arena);

  // Raise the lower bound of all packings, if `bound` is higher.
  void raise_bound(Bytes bound);

  Offsets offsets() const;

  // Return the progress since the last call, in order.
  std::vector<Progress> take_progress();

 private:
  void record();

  const Clock::time_point started_ = Clock::now();
  const Clock::time_point deadline_;
  std::atomic<bool> stop_{false};
  std::atomic<Bytes> arena_, bound_;
  mutable std::mutex mutex_;  // guards the following members, and every change of arena and bound
  Offsets offsets_;
  std::vector<Progress> progress_;
};

}  // namespace pgmo::packing
