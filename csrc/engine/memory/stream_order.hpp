// The order of a plan's streams as recorded from the program: see pgmo/profiler/ordering.

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "types.hpp"

namespace pgmo {

// Later than every tick. The sum of a few of these does not overflow.
constexpr Tick kNeverOrdered = std::numeric_limits<Tick>::max() / 4;

struct StreamOrder {
  std::vector<std::uint32_t> streams;  // indices of the plan's streams in the engine

  // Matrix with a row per request and a column per stream: the first tick at which the stream is
  // ordered after all uses of the request's block. Ticks count from the start of the request's
  // iteration. kNeverOrdered or more: never. Empty if the order is unknown.
  std::vector<Tick> behind;
};

}  // namespace pgmo
