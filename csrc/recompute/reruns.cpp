#include "recompute/reruns.hpp"

#include <algorithm>
#include <stdexcept>

#include "recompute/changes.hpp"

namespace pgmo::recompute {

Replay::Replay(const Columns& columns)
    : forward_((check(columns), columns.forward)),
      operations_(static_cast<Index>(columns.cost.size())),
      cost_(columns.cost) {
  const Index all = static_cast<Index>(columns.size.size());
  std::vector<Index> last(at(all), kNone), number(at(all), kNone);
  for (Index operation = 0; operation < operations_; ++operation) {
    for (Index i = columns.reads.begin[at(operation)]; i < columns.reads.begin[at(operation) + 1];
         ++i) {
      last[at(columns.reads.items[at(i)])] = operation;
    }
  }
  // What an operation writes is counted with it, in the place where it runs.
  written_ = columns.workspace;
  at_.assign(at(operations_) + 1, 0);
  before_.assign(at(operations_) + 1, 0);
  for (Index value = 0; value < all; ++value) {
    const Index producer = columns.producer[at(value)];
    const Bytes size = columns.size[at(value)];
    if (producer == kNone) continue;
    written_[at(producer)] += size;
    if (producer < forward_ && columns.result[at(value)] == 0) {
      number[at(value)] = static_cast<Index>(size_.size());
      size_.push_back(size);
      producer_.push_back(columns.pinned[at(value)] != 0 ? kNone : producer);
      continue;
    }
    const Index end = columns.result[at(value)] != 0 ? operations_ - 1 : last[at(value)];
    live(at_, producer + 1, end, size);
    live(before_, producer + 1, end, size);
  }
  sum_up(at_);
  sum_up(before_);
  reads_.begin = writes_.begin = {0};
  for (Index operation = 0; operation < operations_; ++operation) {
    const auto keep = [&](const Lists& from, Lists& to) {
      for (Index i = from.begin[at(operation)]; i < from.begin[at(operation) + 1]; ++i) {
        const Index value = number[at(from.items[at(i)])];
        if (value != kNone) to.items.push_back(value);
      }
      to.begin.push_back(static_cast<Index>(to.items.size()));
    };
    keep(columns.reads, reads_);
    keep(columns.writes, writes_);
  }
  needed_.resize(size_.size());
}

Outcome Replay::evaluate(const Reruns& reruns, Bytes level,
                         std::vector<std::pair<Index, Index>>* unread) {
  std::fill(needed_.begin(), needed_.end(), std::uint8_t{0});
  Outcome outcome{0, 0, 0};
  Bytes living = 0;  // of what is read after the step that is looked at
  const auto run = [&](Index operation, bool again, Bytes others) {
    const std::size_t row = at(operation);
    if (again) {
      bool wanted = false;
      for (Index i = writes_.begin[row]; i < writes_.begin[row + 1]; ++i) {
        const std::size_t value = at(writes_.items[at(i)]);
        wanted |= needed_[value] != 0 && producer_[value] != kNone;
      }
      if (!wanted) return false;
      outcome.cost += cost_[row];
    }
    for (Index i = writes_.begin[row]; i < writes_.begin[row + 1]; ++i) {
      const std::size_t value = at(writes_.items[at(i)]);
      if (needed_[value] == 0 || (again && producer_[value] == kNone)) continue;
      needed_[value] = 0;
      living -= size_[value];
    }
    for (Index i = reads_.begin[row]; i < reads_.begin[row + 1]; ++i) {
      const std::size_t value = at(reads_.items[at(i)]);
      if (needed_[value] != 0) continue;
      needed_[value] = 1;
      living += size_[value];
    }
    const Bytes load = living + written_[row] + others;
    outcome.peak = std::max(outcome.peak, load);
    outcome.excess += std::max<Bytes>(0, load - level);
    return true;
  };
  for (Index moment = operations_; moment-- > 0;) {
    run(moment, false, at_[at(moment)]);
    const std::vector<Index>& again = reruns[at(moment)];
    for (std::size_t i = again.size(); i-- > 0;) {
      if (!run(again[i], true, before_[at(moment)]) && unread != nullptr) {
        unread->push_back({moment, again[i]});
      }
    }
  }
  return outcome;
}

}  // namespace pgmo::recompute
