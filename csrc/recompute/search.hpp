// Local search for the operations to drop, measured by the peak of the real schedule.
//
// Simulated annealing (Kirkpatrick et al. 1983) with three moves on the candidates in the order in
// which they run:
//
//   toggle    . . # . #   ->   . . # # #      drop one operation, or keep it
//   run       . . # . #   ->   . # # # #      set several in a row to one state
//   swap      . . # . #   ->   . # . . #      drop a nearby operation in place of another
//
// If a step repeats every few candidates, like one of twenty layers, there is a fourth move:
//
//   comb      . . # . . .   ->   # . # # . .  set one candidate in several periods (here three)
//
// A peak above the budget costs a price. The price rises while the search is above the budget and
// falls while the search is below, which keeps the search near the budget, where the best choices
// are.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "recompute/step.hpp"

namespace pgmo::recompute {

// Budget value for a search for the least peak.
constexpr Bytes kLeast = -1;

struct BetterChoice {
  std::int64_t evaluations;  // up to this improvement
  Evaluation outcome;
};

struct SearchResult {
  Choice choice;
  Evaluation outcome;
  std::int64_t evaluations;
  std::vector<BetterChoice> trace;  // one entry per improvement
};

// Return whether `one` is better. A peak within the budget is better than a peak above it. Within
// the budget, lower cost is better, then lower peak; above it, lower peak, then lower cost.
bool better(const Evaluation& one, const Evaluation& other, Bytes budget);

// Return the best choice found, never worse than `start`. Ends after `evaluations` evaluations, or
// when `stop()`, polled every few hundred evaluations, returns true. Deterministic for a seed
// unless stopped. `period` is the number of candidates after which candidates repeat; 0: never.
SearchResult search(Step& step, const std::vector<Index>& candidates, const Choice& start,
                    Bytes budget, std::int64_t evaluations, std::uint64_t seed,
                    const std::function<bool()>& stop, std::uint32_t period = 0);

}  // namespace pgmo::recompute
