// The order of a plan's streams as recorded from the program: see pgmo/profiler/ordering.

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "types.hpp"

namespace pgmo {

// Later than every tick, yet sums of a few do not overflow.
constexpr Tick kNeverOrdered = std::numeric_limits<Tick>::max() / 4;

struct StreamOrder {
  std::vector<std::uint32_t> streams;  // indices of the plan's streams in the engine

  // Row by request, column by stream: the first tick at which the stream is ordered after all uses
  // of the request's block. Ticks count from the start of the request's iteration; kNeverOrdered or
  // more: never. Empty: the order is unknown.
  std::vector<Tick> behind;
};

}  // namespace pgmo
