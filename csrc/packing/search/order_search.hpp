// Searches for a good order in which the skyline prefers blocks.
//
//    key = log lifetime + p log size + learned
//
//    order --> skyline --> arena ---- lower or equal? ---> keep keys and p
//      ^                     |
//      `-- perturbed keys <--+--- blocks above the best arena: learned += a little
//
// With p = 0, the order is by lifetime, as in Sekiyama et al.; with p = 1, by area. An attempt
// perturbs part of the keys, slightly or strongly, or swaps the keys of a few pairs of blocks. Some
// attempts drop the learned gains first, and perturb all keys. A block above the target gets a
// larger key, as in squeaky wheel optimisation (Joslin and Clements 1999). Worse orders are
// accepted with a probability that falls with the loss: annealing (Imanishi and Xu, ISMM 2024).

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
  // The ring must outlive this object. `stopped` is polled regularly; true cancels the search.
  OrderSearch(const Ring& ring, std::uint64_t seed, std::function<bool()> stopped);

  // Try orders, at least one, for about `work` units of work. Return whether the arena fell. Ends
  // early at the bound, if stopped, or when `give_up(units so far)` returns true.
  template <typename GiveUp>
  bool run(Bytes bound, std::uint64_t work, GiveUp give_up) {
    const Bytes before = arena_;
    const std::uint64_t until = work_ + work;
    while (arena_ > bound && attempt() && work_ < until && !give_up(work_)) {
    }
    return arena_ < before;
  }

  // Lower the target to an arena that another search found.
  void lower_target(Bytes arena) { target_ = std::min(target_, arena); }

  // Return the best packing that this search has found.
  const Offsets& offsets() const { return best_; }
  Bytes arena() const { return arena_; }
  std::uint64_t work() const { return work_; }

 private:
  bool attempt();
  void perturb();
  void swap_pairs();
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
  std::vector<BlockId> outstanding_;  // blocks above the target in the last attempt
  Bytes current_ = kUnknown;          // arena of the current order
  Bytes arena_ = kUnknown;            // arena of the best packing
  Bytes target_ = kUnknown;           // least arena of other searches; attempts aim below it
  Offsets best_;
  std::uint64_t work_ = 0;

  static constexpr Bytes kUnknown = std::numeric_limits<Bytes>::max();
};

}  // namespace pgmo::packing
