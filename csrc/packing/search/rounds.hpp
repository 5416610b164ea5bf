// Rounds of searching side by side:
//
//    thread 0   [ orders | ejection ]     [ ejection | orders ]     ...
//    thread 1   [ ejection | orders ]     [ orders | ejection ]
//                                    best                      best
//
// A round is a number of units of work, not of seconds, and threads hear of each other between
// rounds only: so ring, seed and number of threads determine all that is found, and the clock only
// how much of it. When a thread meets the bound, the others go on to the same number of units; of
// several the one that needed the fewest, then the first, has the answer.

#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "packing/search/improve.hpp"
#include "packing/search/meetings.hpp"

namespace pgmo::packing {

class Searcher;

// What the searchers of one ring have in common.
struct SearchContext {
  const Ring& ring;
  const Meetings& meetings;
  const Monitor& monitor;
  const Bytes bound;
  const Bytes unit;
  const std::function<void(const Offsets&, Bytes)> offer;  // called in any thread
  // Fewest units within the round to meet the bound.
  std::atomic<std::uint64_t> met_at{std::numeric_limits<std::uint64_t>::max()};

  // The monitor also stops when it knows an optimal packing; then there is no more to find.
  bool stopped() const { return monitor.stopped(); }
};

class Rounds {
 public:
  // Improves on the incumbent down to `bound`, which need not be a lower bound of this ring.
  // `offer` hears at once, in any thread, of packings better than the best of the last round.
  Rounds(Ring ring, Offsets incumbent, Bytes bound, const Monitor& monitor, const Options& options,
         std::function<void(const Offsets&, Bytes)> offer);
  ~Rounds();

  // Searches for one round, each longer than the one before.
  void run();

  // Whether the bound is met, or so much work came to nothing that more is not worth it.
  bool done() const;

  const Offsets& offsets() const { return best_; }
  Bytes arena() const { return arena_; }

 private:
  const Ring ring_;
  const Meetings meetings_;
  SearchContext shared_;
  std::vector<std::unique_ptr<Searcher>> searchers_;
  Offsets best_;
  Bytes arena_;
  std::uint64_t length_, idle_ = 0;  // units: of the next round, and since the last progress
  std::size_t number_ = 0;
};

}  // namespace pgmo::packing
