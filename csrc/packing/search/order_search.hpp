// Search over the orders in which a skyline prefers blocks.
//
//    key = log lifetime + p log size + learned
//
//    order --> skyline --> arena ---- lower or equal? ---> keep keys and p
//      ^                     |
//      `--- shaken keys <----+--- blocks that stand out above the best arena: learned += a little
//
// p = 0 is the order of Sekiyama et al., p = 1 the one by area. An attempt shakes part of the keys,
// gently or wildly, swaps those of a few pairs of blocks, or starts afresh from shaken keys without
// what was learned. A block that stood out is placed earlier from then on: the priorities are
// learned from what went wrong, as in squeaky wheel optimisation (Joslin and Clements 1999). Worse
// orders are accepted with a probability that falls with the loss, as in the annealing of Imanishi
// and Xu (ISMM 2024).

#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "packing/greedy/skyline.hpp"
#include "packing/random.hpp"

namespace pgmo::packing {

class OrderSearch {
 public:
  // Refers to the ring. `stopped` is asked now and then whether to drop everything.
  OrderSearch(const Ring& ring, std::uint64_t seed, std::function<bool()> stopped);

  // Tries orders for about `work` units, at least one; returns whether the arena fell. Ends early
  // at the bound, when stopped, or when `give_up(units so far)` says so.
  template <typename GiveUp>
  bool run(Bytes bound, std::uint64_t work, GiveUp give_up) {
    const Bytes before = arena_;
    const std::uint64_t until = work_ + work;
    while (arena_ > bound && attempt() && work_ < until && !give_up(work_)) {
    }
    return arena_ < before;
  }

  // What is better than this arena is worth finding.
  void aspire(Bytes arena) { aspiration_ = std::min(aspiration_, arena); }

  // The best packing found here.
  const Offsets& offsets() const { return best_; }
  Bytes arena() const { return arena_; }
  std::uint64_t work() const { return work_; }

 private:
  bool attempt();
  void shake();
  void swap_some();
  bool accepts(Bytes arena);
  void sort_by_key(float power);

  const Ring& ring_;
  SkylinePacker skyline_;
  Random random_;
  std::vector<float> log_lifetime_, log_size_;
  std::vector<float> learned_, tried_;
  float power_ = 0, tried_power_ = 0;
  std::vector<std::uint64_t> packed_;  // scratch of sort_by_key
  std::vector<BlockId> order_;
  std::vector<BlockId> outstanding_;  // above the aim in the last attempt
  Bytes current_ = kUnknown;          // arena of the order that attempts start from
  Bytes arena_ = kUnknown;            // of the best packing
  Bytes aspiration_ = kUnknown;
  Offsets best_;
  std::uint64_t work_ = 0;

  static constexpr Bytes kUnknown = std::numeric_limits<Bytes>::max();
};

}  // namespace pgmo::packing
