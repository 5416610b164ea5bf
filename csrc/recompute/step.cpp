#include "recompute/step.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace pgmo::recompute {

void check(const Columns& columns) {
  const auto need = [](bool good, const char* what) {
    if (!good) throw std::invalid_argument(what);
  };
  const std::size_t operations = columns.cost.size(), values = columns.size.size();
  need(columns.workspace.size() == operations && columns.producer.size() == values &&
           columns.result.size() == values && columns.pinned.size() == values,
       "the columns of a graph differ in length");
  need(columns.forward >= 0 && at(columns.forward) <= operations, "forward is out of range");
  for (const Lists* lists : {&columns.reads, &columns.writes}) {
    need(lists->begin.size() == operations + 1 && lists->begin.front() == 0 &&
             at(lists->begin.back()) == lists->items.size() &&
             std::is_sorted(lists->begin.begin(), lists->begin.end()),
         "a list of values is out of range");
    for (const Index value : lists->items) {
      need(value >= 0 && at(value) < values, "a value is out of range");
    }
  }
  for (const Index producer : columns.producer) {
    need(producer >= kNone && producer < static_cast<Index>(operations),
         "a producer is out of range");
  }
}

Step::Step(const Columns& columns)
    : forward_((check(columns), columns.forward)),
      backward_(static_cast<Index>(columns.cost.size()) - columns.forward),
      cost_(columns.cost.begin(), columns.cost.begin() + columns.forward) {
  const Index operations = forward_ + backward_;
  const Index all = static_cast<Index>(columns.size.size());

  // Find the last use of each value.
  std::vector<Index> last_forward(at(all)), last_backward(at(all), kNone), number(at(all), kNone);
  for (Index value = 0; value < all; ++value) last_forward[at(value)] = columns.producer[at(value)];
  std::vector<Index> first_backward(at(all), backward_);
  for (Index operation = 0; operation < operations; ++operation) {
    for (const Index value : columns.reads[operation]) {
      if (operation < forward_) {
        last_forward[at(value)] = operation;
      } else {
        last_backward[at(value)] = operation - forward_;
        first_backward[at(value)] = std::min(first_backward[at(value)], operation - forward_);
      }
    }
  }

  // Sum up the loads that do not depend on the choice, and number the values whose loads do.
  forward_base_.assign(at(forward_) + 1, 0);
  backward_base_.assign(at(backward_) + 1, 0);
  between_base_.assign(at(backward_) + 1, 0);
  Bytes results = 0;
  for (Index value = 0; value < all; ++value) {
    const Index producer = columns.producer[at(value)];
    const Bytes size = columns.size[at(value)];
    const bool result = columns.result[at(value)] != 0;
    if (producer == kNone) continue;
    if (producer >= forward_) {
      const Index first = producer - forward_;
      const Index last = result ? backward_ - 1 : std::max(first, last_backward[at(value)]);
      live(backward_base_, first, last, size);
      if (first < last) live(between_base_, first + 1, last, size);
    } else if (result) {
      live(forward_base_, producer, forward_ - 1, size);
      results += size;
    } else {
      live(forward_base_, producer, last_forward[at(value)], size);
      number[at(value)] = static_cast<Index>(size_.size());
      size_.push_back(size);
      last_forward_.push_back(last_forward[at(value)]);
      first_backward_.push_back(first_backward[at(value)]);
      last_point_.push_back(
          last_backward[at(value)] == kNone ? -1 : point(last_backward[at(value)], forward_));
      stays_.push_back(columns.pinned[at(value)]);
    }
  }
  values_ = static_cast<Index>(size_.size());
  sum_up(forward_base_);
  sum_up(backward_base_);
  sum_up(between_base_);

  reads_.begin = writes_.begin = backward_reads_.begin = {0};
  for (Index operation = 0; operation < operations; ++operation) {
    const bool ahead = operation < forward_;
    Lists& reads = ahead ? reads_ : backward_reads_;
    for (const Index item : columns.reads[operation]) {
      const Index value = number[at(item)];
      if (value != kNone) reads.items.push_back(value);
    }
    reads.begin.push_back(static_cast<Index>(reads.items.size()));
    const Bytes workspace = columns.workspace[at(operation)];
    if (!ahead) {
      backward_base_[at(operation - forward_)] += workspace + results;
      between_base_[at(operation - forward_)] += results;
      continue;
    }
    forward_base_[at(operation)] += workspace;
    Bytes again = workspace;
    for (const Index value : columns.writes[operation]) {
      again += columns.size[at(value)];
      // Pinned values and results are not recomputed, but occupy bytes during the rerun.
      if (number[at(value)] != kNone && !stays_[at(number[at(value)])]) {
        writes_.items.push_back(number[at(value)]);
      }
    }
    writes_.begin.push_back(static_cast<Index>(writes_.items.size()));
    again_bytes_.push_back(again);
  }

  needed_.resize(at(values_));
  last_.resize(at(values_));
  dropped_.resize(at(values_));
  next_.resize(at(forward_));
  bucket_.resize(at(backward_) + 1);
  change_.resize(at(forward_) + 1);
}

Evaluation Step::evaluate(const Choice& choice, Bytes level) {
  outcome_ = {0, 0, 0};
  level_ = level;
  find_moments(choice);
  run_forward();
  run_backward();
  return outcome_;
}

void Step::find_moments(const Choice& choice) {
  std::copy(first_backward_.begin(), first_backward_.end(), needed_.begin());
  std::copy(last_point_.begin(), last_point_.end(), last_.begin());
  std::fill(dropped_.begin(), dropped_.end(), std::uint8_t{0});
  std::fill(bucket_.begin(), bucket_.end(), kNone);
  for (Index operation = forward_; operation-- > 0;) {
    const std::size_t row = at(operation);
    if (choice[row] == 0) continue;
    Index moment = backward_;
    for (const Index value : writes_[row]) {
      dropped_[at(value)] = 1;
      moment = std::min(moment, needed_[at(value)]);
    }
    if (moment == backward_) continue;
    // Operations are visited from last to first and inserted at the head, so each list is
    // ascending.
    next_[row] = bucket_[at(moment)];
    bucket_[at(moment)] = operation;
    outcome_.cost += cost_[row];
    const std::int64_t here = point(moment, operation);
    for (const Index value : reads_[row]) {
      needed_[at(value)] = std::min(needed_[at(value)], moment);
      last_[at(value)] = std::max(last_[at(value)], here);
    }
  }
}

void Step::run_forward() {
  std::fill(change_.begin(), change_.end(), Bytes{0});
  for (std::size_t value = 0; value < at(values_); ++value) {
    if (needed_[value] < backward_ && dropped_[value] == 0) {
      change_[at(last_forward_[value]) + 1] += size_[value];
    }
  }
  kept_ = 0;
  for (Index operation = 0; operation < forward_; ++operation) {
    kept_ += change_[at(operation)];
    look(forward_base_[at(operation)] + kept_);
  }
  kept_ += change_[at(forward_)];
}

void Step::run_backward() {
  Bytes living = kept_;
  const auto let_go = [&](const Lists& reads, std::size_t row, std::int64_t here) {
    for (const Index value : reads[row]) {
      if (last_[at(value)] == here) living -= size_[at(value)];
    }
  };
  for (Index moment = 0; moment < backward_; ++moment) {
    for (Index operation = bucket_[at(moment)]; operation != kNone;
         operation = next_[at(operation)]) {
      const std::size_t row = at(operation);
      look(living + between_base_[at(moment)] + again_bytes_[row]);
      for (const Index value : writes_[row]) {
        if (needed_[at(value)] < backward_) living += size_[at(value)];
      }
      let_go(reads_, row, point(moment, operation));
    }
    look(living + backward_base_[at(moment)]);
    let_go(backward_reads_, at(moment), point(moment, forward_));
  }
}

}  // namespace pgmo::recompute
