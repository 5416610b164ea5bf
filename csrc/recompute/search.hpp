// Local search over what is forgotten, with the peak of the real schedule as its measure.
//
// Simulated annealing (Kirkpatrick et al. 1983) with three moves on the candidates in the order in
// which they run:
//
//   toggle    . . # . #   ->   . . # # #      one is forgotten, or no longer
//   run       . . # . #   ->   . # # # #      several in a row, all forgotten or none
//   swap      . . # . #   ->   . # . . #      one instead of another nearby
//
// and, where a step repeats itself every few candidates, as one of twenty layers does, with
//
//   comb      . . # . . .   ->   # . # # . .  the same one of several periods (here of three)
//
// A peak above the budget costs a price that rises while the walk stays above it and falls while it
// stays below, so that the walk keeps to the edge, where the best choices are.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "recompute/step.hpp"

namespace pgmo::recompute {

// No peak is low enough: the search looks for the least one.
constexpr Bytes kLeast = -1;

struct Found {
  std::int64_t evaluations;  // until then
  Evaluation outcome;
};

struct Answer {
  Choice choice;
  Evaluation outcome;
  std::int64_t evaluations;
  std::vector<Found> trace;  // each improvement
};

// Whether one outcome is better: within the budget before above it; within, the cheaper one, then
// the lower peak; above, the lower peak, then the cheaper one.
bool better(const Evaluation& one, const Evaluation& other, Bytes budget);

// The best choice found, never worse than `start`, within `evaluations`, or until `stop()` says so,
// which is asked every few hundred. The same for the same seed unless stopped. `period` is the
// number of candidates after which they come again, 0 where they do not.
Answer search(Step& step, const std::vector<Index>& candidates, const Choice& start, Bytes budget,
              std::int64_t evaluations, std::uint64_t seed, const std::function<bool()>& stop,
              std::uint32_t period = 0);

}  // namespace pgmo::recompute
