#include <algorithm>
#include <cmath>

#include "recompute/reruns.hpp"

namespace pgmo::recompute {
namespace {

// Initial and final temperature, as shares of the forward pass's cost.
constexpr double kHot = 2e-2, kCold = 1e-4;
constexpr double kArea = 1.0;
// By round: bytes above peak - peak / margin count as excess.
constexpr Bytes kMargins[] = {20, 50, 50, 50};
constexpr int kRounds = 4;
constexpr Index kFar = 6;               // maximum shift of a rerun, in moments
constexpr std::size_t kMostAdded = 64;  // maximum operations added by one move

// An operation, and the moment of the step before which it runs again.
struct Rerun {
  Index moment, operation;
};
// The moment of a change that toggles whether an operation is offloaded.
constexpr Index kMode = -1;

class RerunAnnealing : Annealing {
 public:
  RerunAnnealing(Replay& replay, const std::vector<std::uint8_t>& movable, const Reruns& start,
                 const Offloaded& offloaded, const SearchLimits& limits, Bytes enough, double most)
      : Annealing(limits, kArea, replay.forward_cost()),
        replay_(replay),
        movable_(movable),
        enough_(enough),
        most_(most),
        now_(start),
        offloaded_(offloaded) {
    const std::vector<double>& seconds = replay.transfers().seconds;
    for (Index i = 0; i < static_cast<Index>(seconds.size()); ++i) {
      if (seconds[at(i)] >= 0) able_.push_back(i);
    }
    if (able_.empty()) offloaded_.clear();
    if (!able_.empty() && offloaded_.empty()) offloaded_.assign(at(replay.forward()), 0);
    current_ = judge();
    result_ = {now_, offloaded_, current_, false};
    set_scale(current_.peak);
  }

  RerunSearchResult run() {
    const bool empty = replay_.operations() == 0;
    for (int round = 0; round < kRounds && !is_over() && !empty; ++round) {
      anneal(round, limits_.evaluations * (round + 1) / kRounds, kHot * std::pow(0.5, round));
    }
    return result_;
  }

 private:
  // The level ignores `enough_`, so that a search with another `enough_` makes the same moves.
  Bytes level(Bytes peak) const { return peak - peak / margin_; }

  Evaluation judge() {
    unread_.clear();
    return replay_.evaluate(now_, offloaded_, level_, &unread_);
  }

  void anneal(int round, std::int64_t until, double hot) {
    now_ = result_.reruns;
    offloaded_ = result_.offloaded;
    margin_ = kMargins[round];
    level_ = level(result_.outcome.peak);
    current_ = judge();
    list();
    const std::int64_t from = evaluations_;
    const double length = static_cast<double>(std::max<std::int64_t>(until - from, 1));
    double temperature = hot;
    std::int64_t tries = 0;  // some moves change nothing
    while (evaluations_ < until && !is_over() && ++tries < 4 * limits_.evaluations) {
      if (tries % 64 == 0) {
        const double gone = static_cast<double>(evaluations_ - from) / length;
        temperature = hot * std::pow(kCold / hot, std::min(1.0, gone));
      }
      changed_.clear();
      propose();
      if (changed_.empty()) continue;
      step(temperature);
    }
  }

  void step(double temperature) {
    const Evaluation then = judge();
    count();
    adapt_price(current_.peak);
    const bool allowed = then.cost <= most_ || then.cost < current_.cost;
    if (!allowed || !accepts(current_, then, temperature)) {
      for (std::size_t i = changed_.size(); i-- > 0;) toggle(changed_[i]);
      return;
    }
    for (const auto& [moment, operation] : unread_) toggle({moment, operation});
    current_ = then;
    list();
    if (then.cost <= most_ && better(then, result_.outcome, limits_.budget)) {
      result_ = {now_, offloaded_, then, true};
      if (limits_.budget == kLeast) {
        if (then.peak <= enough_) stopped_ = true;
        level_ = level(then.peak);
        current_ = judge();
      }
    }
  }

  // List all operations of the step, and the reruns.
  void list() {
    steps_.clear();
    again_.clear();
    for (Index moment = 0; moment < replay_.operations(); ++moment) {
      for (const Index operation : now_[at(moment)]) {
        steps_.push_back({moment, operation});
        again_.push_back({moment, operation});
      }
      steps_.push_back({moment, moment});
    }
  }

  void propose() {
    if (!able_.empty() && random_.below(4) == 0) return offload();
    const std::uint32_t kind = random_.below(16);
    if (kind < 7 || again_.empty()) {
      add();
    } else if (kind < 11) {
      change(again_[random_.below(size(again_))]);
      if (kind == 10) add();
    } else if (kind < 13) {
      shift(again_[random_.below(size(again_))]);
    } else if (kind < 15) {
      remove_several();
    } else {
      shift_all();
    }
  }

  // Rerun a producer of an operation's inputs before the operation, and possibly producers of the
  // producer's own inputs.
  void add() {
    const Rerun step = steps_[random_.below(size(steps_))];
    if (is_fetch(step)) return;
    const double further = kFurther[random_.below(4)];
    std::vector<Index> open;
    const auto take = [&](Index operation, bool all) {
      const std::span<const Index> reads = replay_.reads()[operation];
      const auto count = static_cast<std::uint32_t>(reads.size());
      const std::uint32_t one = count > 0 ? random_.below(count) : 0;
      for (std::uint32_t i = 0; i < count; ++i) {
        if (all ? random_.unit() >= further : i != one) continue;
        const Index producer = replay_.producer(reads[i]);
        if (producer < 0 || producer >= step.moment) continue;
        if (!replay_.is_at_home(step.moment, producer)) continue;
        if (is_offloaded(producer)) {
          fetch(producer, step.moment);
          continue;
        }
        if (movable_[at(producer)] == 0 || has({step.moment, producer})) continue;
        change({step.moment, producer});
        open.push_back(producer);
      }
    };
    take(step.operation, false);
    while (!open.empty() && changed_.size() < kMostAdded) {
      const Index operation = open.back();
      open.pop_back();
      take(operation, true);
    }
  }

  // Offload an operation and fetch its value, or stop offloading it.
  void offload() {
    const Index one = able_[random_.below(static_cast<std::uint32_t>(able_.size()))];
    const bool before = is_offloaded(one);
    if (!before || movable_[at(one)] == 0 || random_.below(2) == 0) {
      for (const Rerun& place : again_) {
        if (place.operation == one) change(place);
      }
    }
    change({kMode, one});
    if (before) return;
    const Index reader = find_reader(one);
    if (reader >= 0) fetch(one, reader);
  }

  // Return the moment of the first backward operation that reads the operation's value, or
  // sometimes the moment of a random reader. Return -1 if there is none.
  Index find_reader(Index operation) {
    const Index until = replay_.transfers().until[at(operation)];
    const bool any = random_.below(4) == 0;
    Index found = -1;
    std::uint32_t count = 0;
    for (const Rerun& step : steps_) {
      if (step.moment < (any ? until : replay_.forward()) || is_fetch(step)) continue;
      for (const Index value : replay_.reads()[step.operation]) {
        if (replay_.producer(value) != operation) continue;
        if (!any) return step.moment;
        if (random_.below(++count) == 0) found = step.moment;
      }
    }
    return found;
  }

  // Fetch so early that the transfer is done in time, or half as early, or right before the moment.
  void fetch(Index operation, Index moment) {
    const Transfers& transfers = replay_.transfers();
    double ahead = transfers.seconds[at(operation)] * kAhead[random_.below(4)];
    while (ahead > 0 && moment > transfers.until[at(operation)] &&
           replay_.is_at_home(moment - 1, operation)) {
      ahead -= replay_.cost()[at(--moment)];
    }
    if (moment < transfers.until[at(operation)] || has({moment, operation})) return;
    change({moment, operation});
  }

  void shift(Rerun from) {
    const Index by = 1 + static_cast<Index>(random_.below(kFar));
    Rerun to{random_.below(2) != 0 ? from.moment + by : from.moment - by, from.operation};
    to.moment = std::clamp(to.moment, from.operation + 1, replay_.operations() - 1);
    if (to.moment == from.moment || !replay_.is_at_home(to.moment, to.operation)) return;
    change(from);
    if (!has(to)) change(to);
  }

  // Remove the reruns of one moment: all reruns, or the reruns from one operation on or up to it.
  void remove_several() {
    const Rerun place = again_[random_.below(size(again_))];
    const std::uint32_t which = random_.below(3);
    const std::vector<Index> all = now_[at(place.moment)];
    for (const Index operation : all) {
      if (which == 0 || (which == 1 ? operation >= place.operation : operation <= place.operation))
        change({place.moment, operation});
    }
  }

  void shift_all() {
    const Rerun place = again_[random_.below(size(again_))];
    const Index by = 1 + static_cast<Index>(random_.below(kFar));
    const bool later = random_.below(2) != 0;
    const std::vector<Index> all = now_[at(place.moment)];
    for (const Index operation : all) {
      Rerun to{later ? place.moment + by : place.moment - by, operation};
      to.moment = std::clamp(to.moment, operation + 1, replay_.operations() - 1);
      if (to.moment == place.moment || !replay_.is_at_home(to.moment, operation)) continue;
      change({place.moment, operation});
      if (!has(to)) change(to);
    }
  }

  bool has(Rerun place) const {
    const std::vector<Index>& row = now_[at(place.moment)];
    return std::binary_search(row.begin(), row.end(), place.operation);
  }
  bool is_offloaded(Index operation) const {
    return !offloaded_.empty() && offloaded_[at(operation)] != 0;
  }
  bool is_fetch(Rerun step) const {
    return step.moment != step.operation && is_offloaded(step.operation);
  }
  void toggle(Rerun place) {
    if (place.moment == kMode) {
      offloaded_[at(place.operation)] ^= 1;
      return;
    }
    std::vector<Index>& row = now_[at(place.moment)];
    const auto found = std::lower_bound(row.begin(), row.end(), place.operation);
    if (found != row.end() && *found == place.operation) {
      row.erase(found);
    } else {
      row.insert(found, place.operation);
    }
  }
  void change(Rerun place) {
    toggle(place);
    changed_.push_back(place);
  }
  static std::uint32_t size(const std::vector<Rerun>& places) {
    return static_cast<std::uint32_t>(places.size());
  }

  static constexpr double kFurther[] = {0, 0.5, 0.9, 1};
  static constexpr double kAhead[] = {1.2, 1, 0.5, 0};

  Replay& replay_;
  const std::vector<std::uint8_t>& movable_;
  const Bytes enough_;
  const double most_;
  Reruns now_;
  Offloaded offloaded_;      // empty if nothing can be offloaded
  std::vector<Index> able_;  // operations that can be offloaded
  Evaluation current_{};
  RerunSearchResult result_;
  std::vector<Rerun> steps_, again_, changed_;
  std::vector<std::pair<Index, Index>> unread_;
  Bytes level_ = 0, margin_ = 50;
};

}  // namespace

RerunSearchResult search_reruns(Replay& replay, const std::vector<std::uint8_t>& movable,
                                const Reruns& start, const Offloaded& offloaded,
                                const SearchLimits& limits, Bytes enough, double most) {
  return RerunAnnealing(replay, movable, start, offloaded, limits, enough, most).run();
}

}  // namespace pgmo::recompute
