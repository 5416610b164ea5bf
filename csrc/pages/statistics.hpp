// Counters of the page space.

#pragma once

#include <cstdint>

#include "types.hpp"

namespace pgmo::pages {

struct PageStatistics {
  // Current values. All pages under slots of settled ranges (planned_range.hpp) count as occupied.
  Bytes held = 0;           // bytes of all pages
  Bytes occupied = 0;       // bytes of pages with a live block
  Bytes live = 0;           // bytes of live blocks in windows
  std::uint64_t stale = 0;  // mappings at places other than the page's home

  Bytes peak_held = 0;  // highest bytes of pages used for a block, since the last reset

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
  std::uint64_t waits_added = 0;  // waits that the program does not imply itself
  std::uint64_t requests_that_map = 0;
  std::uint64_t hand_overs = 0;  // pages that passed to another stream
  std::uint64_t taken = 0;       // pages that were idle elsewhere
  std::uint64_t lends = 0;       // taken pages whose last use was not completed
  std::uint64_t arranged = 0;    // places mapped in advance for a plan
  std::uint64_t surrenders = 0;  // settled ranges that had to count their slots again
};

}  // namespace pgmo::pages
