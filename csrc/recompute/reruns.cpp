#include "recompute/reruns.hpp"

#include <algorithm>
#include <stdexcept>

namespace pgmo::recompute {

Replay::Replay(const Columns& columns)
    : forward_((check(columns), columns.forward)),
      operations_(static_cast<Index>(columns.cost.size())),
      cost_(columns.cost) {
  const Index all = static_cast<Index>(columns.size.size());
  std::vector<Index> last(at(all), kNone), number(at(all), kNone);
  for (Index operation = 0; operation < operations_; ++operation) {
    for (const Index value : columns.reads[operation]) last[at(value)] = operation;
  }
  // Values that an operation writes count while the operation runs.
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
      for (const Index item : from[operation]) {
        const Index value = number[at(item)];
        if (value != kNone) to.items.push_back(value);
      }
      to.begin.push_back(static_cast<Index>(to.items.size()));
    };
    keep(columns.reads, reads_);
    keep(columns.writes, writes_);
  }
  needed_.resize(size_.size());
}

void Replay::set_transfers(const Transfers& transfers) {
  if (transfers.seconds.size() != at(forward_) || transfers.until.size() != at(forward_)) {
    throw std::invalid_argument("transfers must have one entry for each forward operation");
  }
  std::vector<std::vector<Index>> ending(at(operations_));
  value_of_.assign(at(forward_), kNone);
  for (Index operation = 0; operation < forward_; ++operation) {
    if (transfers.seconds[at(operation)] < 0) continue;
    const Index until = transfers.until[at(operation)];
    if (until <= operation || until > forward_) {
      throw std::invalid_argument(
          "an offloaded value must be freed after its operation, within the forward pass");
    }
    for (const Index value : writes_[operation]) {
      if (producer_[at(value)] == kNone) continue;
      if (value_of_[at(operation)] != kNone) {
        throw std::invalid_argument(
            "an operation that can be offloaded writes several recomputable values");
      }
      value_of_[at(operation)] = value;
    }
    if (value_of_[at(operation)] == kNone) {
      throw std::invalid_argument(
          "an operation that can be offloaded writes no recomputable value");
    }
    if (until > operation + 1) ending[at(until - 1)].push_back(operation);
  }
  ending_ = {{0}, {}};
  for (const std::vector<Index>& row : ending) {
    ending_.items.insert(ending_.items.end(), row.begin(), row.end());
    ending_.begin.push_back(static_cast<Index>(ending_.items.size()));
  }
  transfers_ = transfers;
  fetched_.assign(at(forward_), 0);
  sent_.assign(at(forward_), 0);
  arrives_.assign(at(forward_), 0);
}

void Replay::set_homes(const std::vector<Index>& homes) {
  if (homes.size() != at(operations_)) {
    throw std::invalid_argument("homes must have one entry for each operation");
  }
  homes_ = homes;
}

Evaluation Replay::evaluate(const Reruns& reruns, const Offloaded& offloaded, Bytes level,
                            std::vector<std::pair<Index, Index>>* unread) {
  std::fill(needed_.begin(), needed_.end(), std::uint8_t{0});
  std::fill(fetched_.begin(), fetched_.end(), std::uint8_t{0});
  ran_.clear();
  const bool sends = !offloaded.empty();
  bool fetches = false;
  Evaluation outcome{0, 0, 0};
  Bytes living = 0;  // bytes of values that are read after the current point
  const auto need = [&](Index value) {
    if (needed_[at(value)] != 0) return;
    needed_[at(value)] = 1;
    living += size_[at(value)];
  };
  const auto fetch = [&](Index operation, Index moment, Bytes others) {
    const Index value = value_of_[at(operation)];
    if (needed_[at(value)] == 0 || moment < transfers_.until[at(operation)]) return false;
    needed_[at(value)] = 0;
    const Bytes load = living + others;
    living -= size_[at(value)];
    outcome.peak = std::max(outcome.peak, load);
    outcome.excess += std::max<Bytes>(0, load - level);
    fetched_[at(operation)] = 1;
    fetches = true;
    return true;
  };
  const auto run = [&](Index operation, bool again, Bytes others) {
    const std::size_t row = at(operation);
    if (again) {
      bool wanted = false;
      for (const Index value : writes_[row]) {
        wanted |= needed_[at(value)] != 0 && producer_[at(value)] != kNone;
      }
      if (!wanted) return false;
      outcome.cost += cost_[row];
    }
    for (const Index value : writes_[row]) {
      if (needed_[at(value)] == 0 || (again && producer_[at(value)] == kNone)) continue;
      needed_[at(value)] = 0;
      living -= size_[at(value)];
    }
    for (const Index value : reads_[row]) need(value);
    if (sends && !again) {
      for (const Index one : ending_[row]) {
        if (fetched_[at(one)] != 0) need(value_of_[at(one)]);
      }
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
      const bool host = sends && offloaded[at(again[i])] != 0;
      const bool ran = host ? fetch(again[i], moment, before_[at(moment)])
                            : run(again[i], true, before_[at(moment)]);
      if (sends && ran) ran_.push_back({moment, again[i]});
      if (!ran && unread != nullptr) unread->push_back({moment, again[i]});
    }
  }
  if (fetches) outcome.cost += wait(offloaded);
  return outcome;
}

double Replay::wait(const Offloaded& offloaded) {
  double now = 0, worked = 0, link = 0;  // `link`: time at which the link is free
  std::fill(arrives_.begin(), arrives_.end(), -1.0);
  std::size_t next = ran_.size();
  const auto work = [&](Index operation) {
    const std::size_t row = at(operation);
    for (const Index item : reads_[row]) {
      const Index producer = producer_[at(item)];
      if (producer == kNone || arrives_[at(producer)] < 0) continue;
      now = std::max(now, arrives_[at(producer)]);
      arrives_[at(producer)] = -1;
    }
    now += cost_[row];
    worked += cost_[row];
  };
  for (Index moment = 0; moment < operations_; ++moment) {
    // Values that are freed after the previous operation must have been sent by now.
    if (moment > 0) {
      const std::size_t before = at(moment - 1);
      if (moment <= forward_ && fetched_[before] != 0) {
        link = std::max(link, now) + transfers_.seconds[before];
        sent_[before] = link;
        if (transfers_.until[before] == moment) now = std::max(now, link);
      }
      for (const Index one : ending_[before]) {
        if (fetched_[at(one)] != 0) now = std::max(now, sent_[at(one)]);
      }
    }
    for (; next > 0 && ran_[next - 1].first == moment; --next) {
      const Index operation = ran_[next - 1].second;
      if (offloaded[at(operation)] == 0) {
        work(operation);
        continue;
      }
      link = std::max(link, now) + transfers_.seconds[at(operation)];
      arrives_[at(operation)] = link;
    }
    work(moment);
  }
  return now - worked;
}

}  // namespace pgmo::recompute
