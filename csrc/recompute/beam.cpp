#include "recompute/beam.hpp"

#include <algorithm>

#include "packing/random.hpp"

namespace pgmo::recompute {
namespace {

using Word = std::uint64_t;

// Weights of bytes (as a share of the budget) relative to cost (as a share of the forward pass).
// Each weight selects a third of the beam.
constexpr double kWeights[] = {0.3, 1, 3};

struct TrailEntry {
  std::int64_t later;  // the previous entry on the path, which runs later; -1: none
  Index moment, operation;
};

// A path from the end of the step to a moment.
struct State {
  Bytes living;        // bytes of the needed values
  double cost;         // cost of the reruns on the path
  std::int64_t last;   // the latest entry in the trail
  std::uint64_t hash;  // of the set of needed values
  std::size_t row;     // row of its bits in `bits_`
};

}  // namespace

class Beam {
 public:
  Beam(const Replay& replay, const std::vector<std::uint8_t>& movable, Bytes budget,
       std::size_t width)
      : replay_(replay),
        movable_(movable),
        budget_(budget),
        width_(std::max(width, std::size(kWeights))),
        words_((replay.size_.size() + 63) / 64),
        bits_(words_),
        states_{{0, 0, -1, 0, 0}},
        whole_(replay.forward_cost()) {
    packing::Random random(0);
    for (std::size_t value = 0; value < replay.size_.size(); ++value) {
      hashes_.push_back(random.next());
    }
    if (whole_ <= 0) whole_ = 1;
  }

  std::optional<Reruns> run(const std::function<bool()>& stop) {
    for (Index moment = replay_.operations_; moment-- > 0;) {
      in_place(moment);
      if (states_.empty() || stop()) return std::nullopt;
      for (Index one = std::min(moment, replay_.forward_); one-- > 0;) {
        if (movable_[at(one)] != 0 && again(moment, one)) choose();
      }
    }
    const auto cheaper = [](const State& a, const State& b) { return a.cost < b.cost; };
    return reruns(*std::min_element(states_.begin(), states_.end(), cheaper));
  }

 private:
  bool needs(const State& state, Index value) const {
    return (bits_[state.row * words_ + at(value) / 64] >> (value % 64) & 1) != 0;
  }

  void toggle(State& state, Index value) {
    const bool there = needs(state, value);
    bits_[state.row * words_ + at(value) / 64] ^= Word{1} << (value % 64);
    state.living += there ? -replay_.size_[at(value)] : replay_.size_[at(value)];
    state.hash ^= hashes_[at(value)];
  }

  // Step back over an operation. The values that it reads become needed, and the values that it
  // writes are no longer needed.
  void pass(State& state, Index operation, bool again) {
    const Lists &reads = replay_.reads_, &writes = replay_.writes_;
    for (const Index value : writes[operation]) {
      if (needs(state, value) && (!again || replay_.producer_[at(value)] != kNone)) {
        toggle(state, value);
      }
    }
    for (const Index value : reads[operation]) {
      if (!needs(state, value)) toggle(state, value);
    }
  }

  void in_place(Index moment) {
    const Bytes others = replay_.written_[at(moment)] + replay_.at_[at(moment)];
    for (State& state : states_) pass(state, moment, false);
    std::erase_if(states_, [&](const State& one) { return one.living + others > budget_; });
  }

  // From each state that needs a value of the operation, make a state in which the operation runs
  // again before the moment. Add it if it is within the budget. Return whether any was added.
  bool again(Index moment, Index operation) {
    const Lists& writes = replay_.writes_;
    const Bytes others = replay_.written_[at(operation)] + replay_.before_[at(moment)];
    const std::size_t before = states_.size();
    for (std::size_t i = 0; i < before; ++i) {
      bool wanted = false;
      for (const Index value : writes[operation]) {
        wanted |= replay_.producer_[at(value)] != kNone && needs(states_[i], value);
      }
      if (!wanted) continue;
      State made = states_[i];
      made.row = bits_.size() / words_;
      bits_.resize(bits_.size() + words_);
      std::copy_n(bits_.begin() + static_cast<std::ptrdiff_t>(states_[i].row * words_), words_,
                  bits_.begin() + static_cast<std::ptrdiff_t>(made.row * words_));
      pass(made, operation, true);
      if (made.living + others > budget_) continue;
      made.cost += replay_.cost_[at(operation)];
      trail_.push_back({made.last, moment, operation});
      made.last = static_cast<std::int64_t>(trail_.size()) - 1;
      states_.push_back(made);
    }
    return states_.size() > before;
  }

  // Keep the cheapest of equal states. Of these, keep at most `width_`.
  void choose() {
    std::sort(states_.begin(), states_.end(), [](const State& a, const State& b) {
      if (a.hash != b.hash) return a.hash < b.hash;
      return a.cost != b.cost ? a.cost < b.cost : a.last < b.last;
    });
    const auto same = [](const State& a, const State& b) { return a.hash == b.hash; };
    states_.erase(std::unique(states_.begin(), states_.end(), same), states_.end());
    if (states_.size() > width_) {
      std::size_t chosen = 0;
      for (const double weight : kWeights) {
        const std::size_t end = chosen + width_ / std::size(kWeights);
        const auto score = [&](const State& one) {
          const double bytes = static_cast<double>(one.living) / static_cast<double>(budget_);
          return one.cost / whole_ + weight * bytes;
        };
        const auto begin = states_.begin();
        std::partial_sort(begin + static_cast<std::ptrdiff_t>(chosen),
                          begin + static_cast<std::ptrdiff_t>(end), states_.end(),
                          [&](const State& a, const State& b) {
                            const double one = score(a), other = score(b);
                            return one != other ? one < other : a.hash < b.hash;
                          });
        chosen = end;
      }
      states_.resize(chosen);
    }
    std::vector<Word> kept(states_.size() * words_);
    for (std::size_t i = 0; i < states_.size(); ++i) {
      std::copy_n(bits_.begin() + static_cast<std::ptrdiff_t>(states_[i].row * words_), words_,
                  kept.begin() + static_cast<std::ptrdiff_t>(i * words_));
      states_[i].row = i;
    }
    bits_.swap(kept);
  }

  Reruns reruns(const State& state) const {
    Reruns found(at(replay_.operations_));
    for (std::int64_t i = state.last; i >= 0; i = trail_[static_cast<std::size_t>(i)].later) {
      const TrailEntry& one = trail_[static_cast<std::size_t>(i)];
      found[at(one.moment)].push_back(one.operation);
    }
    for (std::vector<Index>& row : found) std::sort(row.begin(), row.end());
    return found;
  }

  const Replay& replay_;
  const std::vector<std::uint8_t>& movable_;
  const Bytes budget_;
  const std::size_t width_, words_;
  std::vector<Word> bits_;
  std::vector<State> states_;
  std::vector<TrailEntry> trail_;
  std::vector<std::uint64_t> hashes_;
  double whole_;
};

std::optional<Reruns> beam_reruns(const Replay& replay, const std::vector<std::uint8_t>& movable,
                                  Bytes budget, std::size_t width,
                                  const std::function<bool()>& stop) {
  return Beam(replay, movable, budget, width).run(stop);
}

}  // namespace pgmo::recompute
