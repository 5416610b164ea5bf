// Several exact searches of one window, racing.
//
//    height ^  incumbent ----.        Exact search is quick with a lucky order and hopeless with
//           |        x  try  '---.    another one. So each racer tries one order after another,
//           |      x               |  for a number of nodes that grows in the manner of Luby. Half
//           |    found ____________|  of the racers try the lower bound itself, the others halve
//           |    bound x x x x x      the distance from it to the incumbent, or less if that fails.
//           +--------------------->
//
// Racers run on several threads and hear of one another between rounds of a fixed number of nodes
// only, so what they find does not depend on how fast the threads are.

#pragma once

#include <memory>

#include "packing/exact/search_order.hpp"
#include "packing/exact/window.hpp"
#include "packing/search/improve.hpp"

namespace pgmo::packing {

class Racer;

class Race {
 public:
  // `offsets` are an incumbent for the window, in units; it needs no search below `bound` bytes.
  Race(const Window& window, Offsets offsets, Bytes bound, const Options& options);
  ~Race();
  Race(Race&&) noexcept;

  // One round of all racers.
  void run(const Monitor& monitor);

  const Window& window() const { return *window_; }
  const Offsets& offsets() const { return offsets_; }
  Bytes arena() const { return window_->bytes(height_); }
  Bytes bound() const { return window_->bytes(bound_); }  // what is proved for this window
  // Whether there is nothing to do: the packing is the best, or the window too large to search.
  bool done() const { return height_ <= bound_ || racers_.empty(); }

 private:
  const Window* window_;
  Offsets offsets_;
  SearchOrder best_;      // the order that led to them; empty for the first incumbent
  Bytes height_, bound_;  // in units
  int threads_;
  std::uint64_t round_ = 0;
  std::vector<std::unique_ptr<Racer>> racers_;
};

}  // namespace pgmo::packing
