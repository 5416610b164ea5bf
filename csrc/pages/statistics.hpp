// What the pages have done.

#pragma once

#include <cstdint>

#include "types.hpp"

namespace pgmo::pages {

struct PageStatistics {
  // Now. What nobody counts (see planned/planned_range.hpp) is occupied as a whole.
  Bytes held = 0;           // pages of the device
  Bytes occupied = 0;       // of these, pages that a living block lies on
  Bytes live = 0;           // blocks outside of planned ranges
  std::uint64_t stale = 0;  // mappings of pages that are used elsewhere

  Bytes peak_held = 0;  // since the last reset

  // Of windows, ever; a request that failed is not counted.
  std::uint64_t allocations = 0;
  std::uint64_t allocated = 0;  // bytes

  // Calls of the device, ever, and what they were for.
  std::uint64_t creates = 0;
  std::uint64_t releases = 0;
  std::uint64_t maps = 0;
  std::uint64_t grants = 0;
  std::uint64_t unmaps = 0;
  std::uint64_t events = 0;
  std::uint64_t waits = 0;
  std::uint64_t waits_added = 0;  // of these, those that the program does not imply itself
  std::uint64_t requests_that_map = 0;
  std::uint64_t hand_overs = 0;  // pages that came from another stream, with or without a wait
  std::uint64_t taken = 0;       // pages that idled elsewhere
  std::uint64_t lends = 0;       // of these, before their last use was completed
  std::uint64_t arranged = 0;    // mapped because a plan will need them
  std::uint64_t surrenders = 0;  // planned ranges that began to be counted
};

}  // namespace pgmo::pages
