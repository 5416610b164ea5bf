// Parts that the searches over choices (search.hpp) and over reruns (reruns.hpp) share: simulated
// annealing (Kirkpatrick et al. 1983) within a budget.
//
// A peak above the budget costs a price. The price rises while the search is above the budget, and
// falls while it is below. So the search stays near the budget, where the best choices are.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "packing/random.hpp"
#include "recompute/step.hpp"

namespace pgmo::recompute {

// Value of `budget` that requests the least peak.
constexpr Bytes kLeast = -1;

// Aim and end of a search, which is deterministic for a seed unless it is stopped.
struct SearchLimits {
  Bytes budget;              // maximum peak, or kLeast
  std::int64_t evaluations;  // maximum number of evaluations
  std::uint64_t seed;
  std::function<bool()> stop;  // polled every few hundred evaluations; true ends the search
};

// Return whether `one` is better. A peak within the budget is better than a peak above it. Within
// the budget, lower cost is better, then lower peak; above it, lower peak, then lower cost.
inline bool better(const Evaluation& one, const Evaluation& other, Bytes budget) {
  const bool fits = one.peak <= budget, other_fits = other.peak <= budget;
  if (fits != other_fits) return fits;
  if (fits) return one.cost != other.cost ? one.cost < other.cost : one.peak < other.peak;
  return one.peak != other.peak ? one.peak < other.peak : one.cost < other.cost;
}

class Annealing {
 protected:
  // `area`: weight of the excess (step.hpp) in a search for the least peak, relative to the peak.
  // Many loads are nearly as high as the peak. If a move lowers one of them, the excess falls,
  // although the peak stays the same. `forward_cost`: unit of costs.
  Annealing(const SearchLimits& limits, double area, double forward_cost)
      : limits_(limits),
        random_(limits.seed),
        area_(area),
        forward_cost_(forward_cost > 0 ? forward_cost : 1) {}

  void set_scale(Bytes first_peak) {
    const Bytes bytes = limits_.budget > 0 ? limits_.budget : first_peak;
    scale_ = static_cast<double>(std::max<Bytes>(bytes, 1));
  }

  // Count an evaluation, and poll `stop` at times.
  void count() {
    if (++evaluations_ % kAsk == 0 && limits_.stop()) stopped_ = true;
  }
  bool is_over() const { return stopped_ || evaluations_ >= limits_.evaluations; }

  void adapt_price(Bytes peak) {
    if (limits_.budget == kLeast) return;
    price_ *= peak > limits_.budget ? kPriceStep : 1 / kPriceStep;
    price_ = std::clamp(price_, kLeastPrice, kMostPrice);
  }

  // Return whether to accept a move from `now` to `then`. A worse `then` is accepted at random.
  bool accepts(const Evaluation& now, const Evaluation& then, double temperature) {
    const double worse = energy(then) - energy(now);
    return worse <= 0 || random_.unit() < std::exp(-worse / temperature);
  }

  const SearchLimits& limits_;
  packing::Random random_;
  std::int64_t evaluations_ = 1;
  bool stopped_ = false;

 private:
  static constexpr std::int64_t kAsk = 256;  // evaluations between two polls of `stop`
  static constexpr double kLeastPrice = 0.05, kMostPrice = 50, kPriceStep = 1.003;

  double energy(const Evaluation& outcome) const {
    const double overhead = outcome.cost / forward_cost_;
    const double peak = static_cast<double>(outcome.peak) / scale_;
    if (limits_.budget != kLeast) return overhead + price_ * std::max(0.0, peak - 1);
    return peak + area_ * static_cast<double>(outcome.excess) / scale_ + 1e-3 * overhead;
  }

  const double area_, forward_cost_;
  double scale_ = 1;
  double price_ = 2;
};

}  // namespace pgmo::recompute
