// Counters of the page space.

#pragma once

#include <cstdint>

#include "types.hpp"

namespace pgmo::pages {

struct PageStatistics {
  // Current values. A settled range (planned/planned_range.hpp) counts as occupied as a whole.
  Bytes held = 0;           // pages of the device
  Bytes occupied = 0;       // of these, pages with a live block
  Bytes live = 0;           // blocks of windows
  std::uint64_t stale = 0;  // mappings of pages whose home is elsewhere

  Bytes peak_held = 0;  // since the last reset

  // Totals of windows, without failed requests.
  std::uint64_t allocations = 0;
  std::uint64_t allocated = 0;  // bytes

  // Totals of device calls, and their reasons.
  std::uint64_t creates = 0;
  std::uint64_t releases = 0;
  std::uint64_t maps = 0;
  std::uint64_t grants = 0;
  std::uint64_t unmaps = 0;
  std::uint64_t events = 0;
  std::uint64_t waits = 0;
  std::uint64_t waits_added = 0;  // of these, waits that the program does not imply itself
  std::uint64_t requests_that_map = 0;
  std::uint64_t hand_overs = 0;  // pages that came from another stream, with or without a wait
  std::uint64_t taken = 0;       // pages that were idle elsewhere
  std::uint64_t lends = 0;       // of these, pages whose last use was not completed
  std::uint64_t arranged = 0;    // mapped in advance for a plan
  std::uint64_t surrenders = 0;  // settled ranges that began to count their slots
};

}  // namespace pgmo::pages
