#include "recompute/search.hpp"

#include <algorithm>
#include <cmath>

#include "packing/random.hpp"

namespace pgmo::recompute {
namespace {

using packing::Random;

// Initial and final temperature, as a share of the forward pass's cost.
constexpr double kHot = 4e-3, kCold = 2e-5;
// In a search for the least peak, loads within 1/kMargin of the peak also count. Many moments are
// nearly as high, and lowering one of them is progress that the peak does not show.
constexpr double kArea = 0.1;
constexpr Bytes kMargin = 50;
constexpr int kRounds = 3;  // each starts from the best choice, cooler than the previous round
constexpr std::int64_t kAsk = 256;   // evaluations between two polls of `stop`
constexpr std::uint32_t kNear = 24;  // maximum distance of a swap, in candidates
constexpr double kLeastPrice = 0.05, kMostPrice = 50, kPriceStep = 1.003;

class ChoiceAnnealing {
 public:
  ChoiceAnnealing(Step& step, const std::vector<Index>& candidates, const Choice& start,
                  Bytes budget, std::int64_t evaluations, std::uint64_t seed,
                  const std::function<bool()>& stop, std::uint32_t period)
      : step_(step),
        candidates_(candidates),
        budget_(budget),
        limit_(evaluations),
        random_(seed),
        stop_(stop),
        period_(period),
        choice_(start) {
    for (Index operation = 0; operation < step.forward(); ++operation) {
      whole_ += step.cost(operation);
    }
    if (whole_ <= 0) whole_ = 1;
    result_ = {start, step.evaluate(start), 1, {}};
    scale_ = static_cast<double>(std::max<Bytes>(budget > 0 ? budget : result_.outcome.peak, 1));
    result_.trace.push_back({1, result_.outcome});
  }

  SearchResult run() {
    if (!candidates_.empty()) {
      // Reserve evaluations for `take_back`, which undoes choices that became unnecessary.
      const std::int64_t size = static_cast<std::int64_t>(candidates_.size());
      const std::int64_t annealed = limit_ - std::min(limit_ / 4, 2 * size);
      for (int round = 0; round < kRounds && !stopped_; ++round) {
        anneal(annealed * (round + 1) / kRounds, kHot * std::pow(0.3, round));
      }
      take_back();
    }
    return result_;
  }

 private:
  Bytes level() const { return result_.outcome.peak - result_.outcome.peak / kMargin; }

  double energy(const Evaluation& outcome) const {
    const double overhead = outcome.cost / whole_;
    const double peak = static_cast<double>(outcome.peak) / scale_;
    if (budget_ != kLeast) return overhead + price_ * std::max(0.0, peak - 1);
    return peak + kArea * static_cast<double>(outcome.excess) / scale_ + 1e-3 * overhead;
  }

  Evaluation evaluate() {
    const Evaluation outcome = step_.evaluate(choice_, level());
    ++result_.evaluations;
    if (better(outcome, result_.outcome, budget_)) {
      result_.choice = choice_;
      result_.outcome = outcome;
      result_.trace.push_back({result_.evaluations, outcome});
    }
    if (result_.evaluations % kAsk == 0 && stop_()) stopped_ = true;
    return outcome;
  }

  bool over() const { return stopped_ || result_.evaluations >= limit_; }

  void anneal(std::int64_t until, double hot) {
    choice_ = result_.choice;
    Evaluation now = result_.outcome;
    const std::int64_t from = result_.evaluations;
    double temperature = hot;
    const double length = static_cast<double>(std::max<std::int64_t>(until - from, 1));
    while (result_.evaluations < until && !over()) {
      const double gone = static_cast<double>(result_.evaluations - from) / length;
      if (result_.evaluations % 64 == 0) temperature = hot * std::pow(kCold / hot, gone);
      flipped_.clear();
      propose();
      if (flipped_.empty()) continue;
      const Evaluation then = evaluate();
      if (budget_ != kLeast) {
        price_ *= now.peak > budget_ ? kPriceStep : 1 / kPriceStep;
        price_ = std::clamp(price_, kLeastPrice, kMostPrice);
      }
      const double worse = energy(then) - energy(now);
      if (worse <= 0 || random_.unit() < std::exp(-worse / temperature)) {
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

  // Set a few neighbours to the same state in several periods.
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
    choice_ = result_.choice;
    std::vector<Index> order;
    for (const Index operation : candidates_) {
      if (choice_[static_cast<std::size_t>(operation)] != 0) order.push_back(operation);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](Index a, Index b) { return step_.cost(a) > step_.cost(b); });
    for (const Index operation : order) {
      if (over()) break;
      const std::int64_t found = static_cast<std::int64_t>(result_.trace.size());
      flip(operation);
      evaluate();
      if (static_cast<std::int64_t>(result_.trace.size()) == found) flip(operation);
    }
  }

  std::uint8_t state(std::uint32_t candidate) const {
    return choice_[static_cast<std::size_t>(candidates_[candidate])];
  }
  void flip(Index operation) { choice_[static_cast<std::size_t>(operation)] ^= 1; }
  void change(std::uint32_t candidate) {
    flip(candidates_[candidate]);
    flipped_.push_back(candidates_[candidate]);
  }

  Step& step_;
  const std::vector<Index>& candidates_;
  const Bytes budget_;
  const std::int64_t limit_;
  Random random_;
  const std::function<bool()>& stop_;
  const std::uint32_t period_;
  Choice choice_;
  SearchResult result_;
  std::vector<Index> flipped_;
  double whole_ = 0, scale_ = 1;
  double price_ = 2;
  bool stopped_ = false;
};

}  // namespace

bool better(const Evaluation& one, const Evaluation& other, Bytes budget) {
  const bool fits = one.peak <= budget, other_fits = other.peak <= budget;
  if (fits != other_fits) return fits;
  if (fits) return one.cost != other.cost ? one.cost < other.cost : one.peak < other.peak;
  return one.peak != other.peak ? one.peak < other.peak : one.cost < other.cost;
}

SearchResult search(Step& step, const std::vector<Index>& candidates, const Choice& start,
                    Bytes budget, std::int64_t evaluations, std::uint64_t seed,
                    const std::function<bool()>& stop, std::uint32_t period) {
  return ChoiceAnnealing(step, candidates, start, budget, evaluations, seed, stop, period).run();
}

}  // namespace pgmo::recompute
