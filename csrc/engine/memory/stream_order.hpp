// How a plan's program orders its streams, as it was recorded: see pgmo/profiler/ordering.

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "types.hpp"

namespace pgmo {

constexpr Tick kNeverOrdered = std::numeric_limits<Tick>::max() / 4;

struct StreamOrder {
  std::vector<std::uint32_t> streams;

  // For each request and each of these streams: from which tick on the stream comes after all that
  // the request's block was used for, counted from the beginning of its iteration. Empty: nothing
  // is known.
  std::vector<Tick> behind;
};

}  // namespace pgmo
