// Local search for the operations to drop, measured by the peak of the real schedule.
//
// Simulated annealing (annealing.hpp) with three moves on the candidates in the order in
// which they run:
//
//   toggle    . . # . #   ->   . . # # #      drop one operation, or keep it
//   run       . . # . #   ->   . # # # #      set several in a row to one state
//   swap      . . # . #   ->   . # . . #      drop a nearby operation in place of another
//
// If the candidates recur periodically, as in a model of equal layers, there is a fourth move:
//
//   comb      . . # . . .   ->   # . # # . .  set the same candidates of several periods

#pragma once

#include <cstdint>
#include <vector>

#include "recompute/annealing.hpp"
#include "recompute/step.hpp"

namespace pgmo::recompute {

struct SearchResult {
  Choice choice;
  Evaluation outcome;
  std::int64_t evaluations;
  bool improved;  // whether the choice is better than the start
};

// Return the best choice found, never worse than `start`. `period` is the number of candidates
// after which candidates repeat; 0: never.
SearchResult search(Step& step, const std::vector<Index>& candidates, const Choice& start,
                    const SearchLimits& limits, std::uint32_t period = 0);

}  // namespace pgmo::recompute
