// Rounds of parallel search:
//
//    thread 0   [ orders | ejection ]     [ ejection | orders ]     ...
//    thread 1   [ ejection | orders ]     [ orders | ejection ]
//                                    best                      best
//
// A round lasts a number of units of work, not of seconds, and threads exchange results only
// between rounds. So the results of a round depend only on ring, seed and number of threads; time
// only limits the number of rounds. When a thread meets the bound, the other threads continue to
// the same number of units. If several threads meet the bound, the thread with the fewest units
// wins; of threads with equal units, the first wins.

#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "packing/search/improve.hpp"
#include "packing/search/interference.hpp"

namespace pgmo::packing {

class Searcher;

// State shared by the searchers of one ring.
struct SearchContext {
  const Ring& ring;
  const InterferenceIndex& interference;
  const Monitor& monitor;
  const Bytes bound;
  const Bytes unit;
  const std::function<void(const Offsets&, Bytes)> offer;  // called from any thread
  // Fewest units within the round to meet the bound.
  std::atomic<std::uint64_t> met_at{std::numeric_limits<std::uint64_t>::max()};

  // The monitor also stops when it has an optimal packing, so no better packing exists.
  bool stopped() const { return monitor.stopped(); }
};

class Rounds {
 public:
  // Improve the incumbent until it meets `bound`, which need not be a lower bound of this ring.
  // `offer` is called immediately, from any thread, with packings better than the best of the last
  // round.
  Rounds(Ring ring, Offsets incumbent, Bytes bound, const Monitor& monitor, const Options& options,
         std::function<void(const Offsets&, Bytes)> offer);
  ~Rounds();

  // Run one round, each longer than the previous one.
  void run();

  // Return whether the bound is met, or too much work was done without progress.
  bool done() const;

  const Offsets& offsets() const { return best_; }
  Bytes arena() const { return arena_; }

 private:
  const Ring ring_;
  const InterferenceIndex interference_;
  SearchContext shared_;
  std::vector<std::unique_ptr<Searcher>> searchers_;
  Offsets best_;
  Bytes arena_;
  // Units: length of the next round, and work since the last progress.
  std::uint64_t length_, idle_ = 0;
  std::size_t number_ = 0;
};

}  // namespace pgmo::packing
