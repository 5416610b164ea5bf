// An iteration of a program that diverges from its plan.
//
//     plan      a b c d e f g h
//     program   a c b d d x   g       reordered, duplicated, inserted, dropped, cut short, outgrown
//     or        a b c f g d e f g h   a part of the plan too early, or once more

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "client.hpp"
#include "random_plan.hpp"

namespace pgmo::test {

struct Step {
  std::uint64_t bytes;
  std::uint32_t stream;
  Tick tick;  // within the iteration
  Tick lifetime;
};

inline std::uint64_t any_size(Random& random, Bytes most) {
  return static_cast<std::uint64_t>(random.between(1, most));
}

class Perturbation {
 public:
  // `wildness`: 0 for a program that follows the plan. An inserted request has one of `sizes`, or
  // any size. `outgrown`: whether varying requests are larger than planned.
  Perturbation(Random& random, double wildness, const std::vector<Bytes>& sizes, bool outgrown)
      : random_(random), wildness_(wildness), sizes_(sizes), outgrown_(outgrown) {}

  std::vector<Step> of(const RandomPlan& plan) {
    std::vector<Step> steps;
    const Tick ticks = static_cast<Tick>(plan.rows.size());
    for (Tick tick = 0; tick < ticks; ++tick) {
      if (random_.chance(wildness_ / 8)) tick += random_.between(1, 12);  // drop several requests
      if (random_.chance(wildness_ / 2) || tick >= ticks) continue;
      const PlannedRequest& row = plan.rows[static_cast<std::size_t>(tick)];
      if (random_.chance(wildness_ / 2)) steps.push_back(stranger(tick, ticks));
      if (random_.chance(wildness_ / 16)) add_part(plan, steps);
      Step step{.bytes = static_cast<std::uint64_t>(row.bytes),
                .stream = row.stream_index,
                .tick = tick,
                .lifetime = lifetime(row.end - tick, for_good(row), ticks)};
      if (row.varying && random_.chance(0.5)) step.bytes = any_size(random_, row.bytes);
      if (row.varying && outgrown_) step.bytes = static_cast<std::uint64_t>(row.bytes) + 16;
      if (random_.chance(wildness_ / 4)) step.bytes = any_size(random_, 2 * row.bytes);
      steps.push_back(step);
      if (random_.chance(wildness_ / 4)) steps.push_back(step);
      if (steps.size() > 1 && random_.chance(wildness_)) {
        std::swap(steps.back(), steps[steps.size() - 2]);
      }
    }
    if (random_.chance(wildness_ / 2)) {  // cut short
      const auto length = static_cast<std::int64_t>(steps.size());
      steps.resize(static_cast<std::size_t>(random_.between(0, length)));
    }
    return steps;
  }

 private:
  static bool for_good(const PlannedRequest& row) { return row.offset == kUnplanned; }

  Step stranger(Tick tick, Tick ticks) {
    const auto size = random_.chance(0.5) ? random_.pick(sizes_) : random_.between(1, 5000);
    return {.bytes = static_cast<std::uint64_t>(size),
            .stream = static_cast<std::uint32_t>(random_.between(0, Client::kUnknownStream)),
            .tick = tick,
            .lifetime = random_.between(1, 2 * ticks)};
  }

  // Add some consecutive rows from anywhere in the plan, freed soon or as planned.
  void add_part(const RandomPlan& plan, std::vector<Step>& steps) {
    const Tick ticks = static_cast<Tick>(plan.rows.size());
    const Tick begin = random_.between(0, ticks - 1);
    const Tick end = std::min(ticks, begin + random_.between(2, 24));
    const bool soon = random_.chance(0.5);
    for (Tick tick = begin; tick < end; ++tick) {
      const PlannedRequest& row = plan.rows[static_cast<std::size_t>(tick)];
      steps.push_back({.bytes = static_cast<std::uint64_t>(row.bytes),
                       .stream = row.stream_index,
                       .tick = tick,
                       .lifetime = soon ? random_.between(1, 8) : row.end - tick});
    }
  }

  Tick lifetime(Tick planned, bool persistent, Tick ticks) {
    if (persistent) return random_.between(20 * ticks, 30 * ticks);
    if (random_.chance(wildness_ / 2)) return random_.between(1, planned);  // freed early
    if (random_.chance(wildness_ / 4)) return planned + random_.between(1, 4);
    if (random_.chance(wildness_ / 8)) return planned + random_.between(1, 4 * ticks);
    if (random_.chance(wildness_ / 100)) return planned + 100 * ticks;
    return planned;
  }

  Random& random_;
  double wildness_;
  const std::vector<Bytes>& sizes_;
  bool outgrown_;
};

}  // namespace pgmo::test
