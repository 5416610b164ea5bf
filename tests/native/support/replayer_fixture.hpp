// A replayer with the state that it refers to, and rows with disjoint slots.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/replay/replayer.hpp"
#include "rows.hpp"

namespace pgmo::test {

inline constexpr Heuristics kDefaults;

struct ReplayerFixture {
  SharedReplayState shared;
  LateSet& late = shared.late;
  Counters& counters = shared.counters;
  Replayer replayer;

  explicit ReplayerFixture(const std::vector<PlannedRequest>& rows)
      : replayer(ReplayPlan(rows, 1'000'000, 1), shared) {}

  Offset serve(Bytes bytes, std::uint32_t stream = 0) {
    return replayer.serve(make_key(bytes, stream));
  }
  std::uint64_t missed(Miss reason) const { return counters.misses[static_cast<int>(reason)]; }
};

// Return rows whose slots live until the end of the plan and do not overlap.
inline std::vector<PlannedRequest> disjoint(const std::vector<Bytes>& sizes) {
  std::vector<PlannedRequest> rows;
  for (std::size_t row = 0; row < sizes.size(); ++row) {
    rows.push_back(
        slot(sizes[row], static_cast<Tick>(sizes.size()), static_cast<Offset>(1000 * row)));
  }
  return rows;
}

}  // namespace pgmo::test
