// The heuristics of the native parts: all tunable numbers of their decisions.
//
// They trade memory for time; no value makes live blocks overlap or a result wrong.
// pgmo/allocator/heuristics.py has the same fields with the same defaults, and the heuristics of
// sessions.

#pragma once

#include <cstddef>
#include <cstdint>

#include "types.hpp"

namespace pgmo {

struct Heuristics {
  // --- recording ---

  // Number of further iterations that must confirm an observation before pgmo acts on it.
  // Observations are that a structure repeats, that a plan is followed again, and that a plan lacks
  // pages.
  // Unit: iterations. Reason: a single iteration may be an exception. Further iterations show which
  // blocks are freed, and some missing pages become idle within two iterations.
  int confirmations = 2;

  // --- matching requests to a plan ---

  // Number of requests of a plan among which an unexpected request is searched, ahead of the cursor
  // and behind it. Also the number of an iteration's first requests that select the plan.
  // Unit: requests. Reason: each is compared on a miss. A larger number also increases the risk
  // that an unplanned block matches and occupies the slot of another request for long.
  std::uint32_t look_ahead = 16;

  // Maximum ratio of two sequence lengths of one program. While the size of a varying request of a
  // plan is unknown, it matches requests of up to `length_ratio` times its planned size, and down
  // to its planned size divided by the square of `length_ratio`.
  // Unit: ratio. Reason: a prompt and a single token are different structures. A request beyond
  // this ratio is another request, such as a logged number.
  Bytes length_ratio = 16;

  // --- pages ---

  // Maximum memory wasted to save driver calls or time. It limits how many pages a plan may need
  // beyond those of windows, how much packers may waste before a search starts, and how many pages
  // are created at once for a plan. Iterations whose requested bytes differ by less count as equal.
  // Unit: share of the memory that is needed without this waste. Reason: no program may need more
  // memory with a plan. With one page too few, one page moves in each iteration.
  double spare_share = 0.005;

  // Blocks below this size have windows of their own. The touched part of a block is measured only
  // from this size on. Idle pages of an arena go back to the operating system only if resident
  // memory exceeds the need by more than this size.
  // Unit: bytes. Reason: a page that one small block keeps in use fills with other small blocks.
  // PyTorch uses the same limit.
  Bytes small_block = Bytes{1} << 20;

  // Maximum number of mappings that are kept although their page is used at another address. Above
  // it, the oldest ones are unmapped. Unit: mappings. Reason: a mapping that is still valid when
  // its address is used again saves two driver calls. Keeping all mappings would cost the driver
  // memory and time.
  std::size_t stale_mappings = std::size_t{1} << 16;

  // Bytes freed on a stream after which an event is recorded there.
  // Unit: bytes. Reason: another stream that must wait for a free waits for the next event, which
  // should be soon after the free.
  Bytes freed_per_event = Bytes{64} << 20;

  // Maximum number of iterations in which a plan's pages are rearranged or returned. Also the
  // maximum number of iterations in which a range counts its slots because other requests need its
  // pages.
  // Unit: iterations. Reason: an arrangement that is incomplete after this many iterations never
  // completes.
  int most_arrangements = 64;

  // --- arenas of the CPU ---

  // Slots may exceed the program's need by this share before idle pages go back to the operating
  // system. In one iteration, idle pages go back again once framework blocks have grown by this
  // share of the need.
  // Unit: share of the program's need. Reason: with 1/16, an iteration with thousands of requests
  // reaches the maximum number of returns before its peak. trl's GRPO then took 4 MiB more.
  double lending_share = 1.0 / 8;
};

// The heuristics of this process. Engines and spaces copy them on construction.
inline Heuristics process_heuristics;

}  // namespace pgmo
