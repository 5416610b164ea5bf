#include "recompute/search.hpp"

#include <algorithm>
#include <cmath>

namespace pgmo::recompute {
namespace {

// Initial and final temperature, as a share of the forward pass's cost.
constexpr double kHot = 4e-3, kCold = 2e-5;
constexpr double kArea = 0.1;
// In a search for the least peak, bytes above peak - peak / kMargin count as excess.
constexpr Bytes kMargin = 50;
constexpr int kRounds = 3;  // each starts from the best choice, cooler than the previous round
constexpr std::uint32_t kNear = 24;  // maximum distance of a swap, in candidates

class ChoiceAnnealing : Annealing {
 public:
  ChoiceAnnealing(Step& step, const std::vector<Index>& candidates, const Choice& start,
                  const SearchLimits& limits, std::uint32_t period)
      : Annealing(limits, kArea, step.forward_cost()),
        step_(step),
        candidates_(candidates),
        period_(period),
        choice_(start),
        best_(start),
        best_outcome_(step.evaluate(start)) {
    set_scale(best_outcome_.peak);
  }

  SearchResult run() {
    if (!candidates_.empty()) {
      // Reserve evaluations for `take_back`, which undoes choices that became unnecessary.
      const std::int64_t size = static_cast<std::int64_t>(candidates_.size());
      const std::int64_t annealed =
          limits_.evaluations - std::min(limits_.evaluations / 4, 2 * size);
      for (int round = 0; round < kRounds && !stopped_; ++round) {
        anneal(annealed * (round + 1) / kRounds, kHot * std::pow(0.3, round));
      }
      take_back();
    }
    return {best_, best_outcome_, evaluations_, improvements_ > 0};
  }

 private:
  Evaluation evaluate() {
    const Bytes level = best_outcome_.peak - best_outcome_.peak / kMargin;
    const Evaluation outcome = step_.evaluate(choice_, level);
    count();
    if (better(outcome, best_outcome_, limits_.budget)) {
      best_ = choice_;
      best_outcome_ = outcome;
      ++improvements_;
    }
    return outcome;
  }

  void anneal(std::int64_t until, double hot) {
    choice_ = best_;
    Evaluation now = best_outcome_;
    const std::int64_t from = evaluations_;
    double temperature = hot;
    const double length = static_cast<double>(std::max<std::int64_t>(until - from, 1));
    while (evaluations_ < until && !is_over()) {
      const double gone = static_cast<double>(evaluations_ - from) / length;
      if (evaluations_ % 64 == 0) temperature = hot * std::pow(kCold / hot, gone);
      flipped_.clear();
      propose();
      if (flipped_.empty()) continue;
      const Evaluation then = evaluate();
      adapt_price(now.peak);
      if (accepts(now, then, temperature)) {
        now = then;
      } else {
        for (const Index operation : flipped_) flip(operation);
      }
    }
  }

  void propose() {
    const std::uint32_t count = static_cast<std::uint32_t>(candidates_.size());
    if (period_ != 0 && random_.below(3) == 0) return comb(count);
    const std::uint32_t kind = random_.below(10);
    const std::uint32_t first = random_.below(count);
    if (kind < 4 || count == 1) {
      change(first);
    } else if (kind < 7) {
      const std::uint32_t most = std::min(count - first, 2U << random_.below(5));
      const std::uint32_t length = 1 + random_.below(most);
      const std::uint8_t wanted = random_.below(2) != 0 ? 1 : 0;
      for (std::uint32_t i = first; i < first + length; ++i) {
        if (state(i) != wanted) change(i);
      }
    } else {
      const std::uint32_t low = first > kNear ? first - kNear : 0;
      const std::uint32_t high = std::min(count, first + kNear + 1);
      const std::uint32_t second = low + random_.below(high - low);
      if (state(first) == state(second)) return change(first);
      change(first);
      change(second);
    }
  }

  // Set a few adjacent candidates to the same state, at the same place of several periods.
  void comb(std::uint32_t count) {
    const std::uint32_t first = random_.below(count);
    const std::uint32_t width = 1 + random_.below(1U << random_.below(4));
    const std::uint32_t times = 2 + random_.below(2U << random_.below(5));
    const std::uint8_t wanted = random_.below(2) != 0 ? 1 : 0;
    for (std::uint32_t i = 0; i < times && first + i * period_ < count; ++i) {
      const std::uint32_t from = first + i * period_;
      const std::uint32_t to = std::min({from + width, from + period_, count});
      for (std::uint32_t j = from; j < to; ++j) {
        if (state(j) != wanted) change(j);
      }
    }
  }

  // Undo unnecessary choices, the most expensive first.
  void take_back() {
    choice_ = best_;
    std::vector<Index> order;
    for (const Index operation : candidates_) {
      if (choice_[at(operation)] != 0) order.push_back(operation);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](Index a, Index b) { return step_.cost(a) > step_.cost(b); });
    for (const Index operation : order) {
      if (is_over()) break;
      const int before = improvements_;
      flip(operation);
      evaluate();
      if (improvements_ == before) flip(operation);
    }
  }

  std::uint8_t state(std::uint32_t candidate) const { return choice_[at(candidates_[candidate])]; }
  void flip(Index operation) { choice_[at(operation)] ^= 1; }
  void change(std::uint32_t candidate) {
    flip(candidates_[candidate]);
    flipped_.push_back(candidates_[candidate]);
  }

  Step& step_;
  const std::vector<Index>& candidates_;
  const std::uint32_t period_;
  Choice choice_, best_;
  Evaluation best_outcome_;
  int improvements_ = 0;
  std::vector<Index> flipped_;
};

}  // namespace

SearchResult search(Step& step, const std::vector<Index>& candidates, const Choice& start,
                    const SearchLimits& limits, std::uint32_t period) {
  return ChoiceAnnealing(step, candidates, start, limits, period).run();
}

}  // namespace pgmo::recompute
