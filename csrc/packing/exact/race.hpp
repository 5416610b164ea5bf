// Several exact searches of one window, which compete.
//
//    height ^  incumbent ----.        Exact search is quick with some orders and hopeless with
//           |        x  try  '---.    others. So each racer tries one order after another, for a
//           |      x               |  number of nodes that grows by Luby's sequence. Half of the
//           |    found ____________|  racers try the lower bound itself. The other racers try
//           |    bound x x x x x      halfway between bound and incumbent, or higher after a
//           +--------------------->   failure.
//
// Racers run on several threads. They exchange results only between rounds of a fixed number of
// nodes, so the results do not depend on the speed of the threads.

#pragma once

#include <memory>

#include "packing/exact/search_order.hpp"
#include "packing/exact/window.hpp"
#include "packing/search/improve.hpp"

namespace pgmo::packing {

class Racer;

class Race {
 public:
  // `offsets` is a packing of the window in units. The race stops at `bound` bytes. `window` must
  // outlive the race.
  Race(const Window& window, Offsets offsets, Bytes bound, const Options& options);
  ~Race();
  Race(Race&&) noexcept;

  // Run one round of all racers.
  void run(const Monitor& monitor);

  const Window& window() const { return *window_; }
  const Offsets& offsets() const { return offsets_; }
  Bytes arena() const { return window_->bytes(height_); }
  Bytes bound() const { return window_->bytes(bound_); }  // proved for this window
  // Return whether no work is left: the packing is optimal, or the window is too large to search.
  bool done() const { return height_ <= bound_ || racers_.empty(); }

 private:
  const Window* window_;
  Offsets offsets_;
  SearchOrder best_;      // the order that led to `offsets_`; empty for the first incumbent
  Bytes height_, bound_;  // in units
  int threads_;
  std::uint64_t round_ = 0;
  std::vector<std::unique_ptr<Racer>> racers_;
};

}  // namespace pgmo::packing
