// The order of a plan's streams as recorded from the program: see pgmo/profiler/ordering.

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "types.hpp"

namespace pgmo {

constexpr Tick kNeverOrdered = std::numeric_limits<Tick>::max() / 4;

struct StreamOrder {
  std::vector<std::uint32_t> streams;

  // For each request and each of these streams, the first tick at which the stream is ordered after
  // all uses of the request's block. Ticks count from the start of the request's iteration. Empty:
  // unknown.
  std::vector<Tick> behind;
};

}  // namespace pgmo
