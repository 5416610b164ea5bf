// The heuristics of the native parts: all tunable numbers of their decisions.
//
// They trade memory for time; no value makes live blocks overlap or a result wrong.
// pgmo/allocator/heuristics.py has the same fields, with these defaults, and those of sessions.

#pragma once

#include <cstddef>
#include <cstdint>

#include "types.hpp"

namespace pgmo {

struct Heuristics {
  // --- recording ---

  // Number of further iterations that must confirm an observation before the session acts on it: a
  // structure repeats, a plan is followed again, or a plan lacks pages.
  // Unit: iterations. Reason: a single iteration may be an exception, later ones show which blocks
  // are freed, and some pages that idle elsewhere come free within two.
  int confirmations = 2;

  // --- matching requests to a plan ---

  // Number of requests that the search for a request's place in a plan covers. The first ones of an
  // iteration select the plan; an unexpected one is searched this far ahead of and behind the
  // cursor.
  // Unit: requests, each compared on a miss. Reason: with more, lasting blocks that are not in the
  // plan get the slots of other requests more often, and hold them.
  std::uint32_t look_ahead = 16;

  // Maximum ratio of two sequence lengths of one program. While the size of a varying request is
  // unknown, it may be larger than planned by this ratio, and smaller by its square.
  // Unit: ratio. Reason: a prompt and a single token are different programs. Beyond this ratio, a
  // request is another one, such as a logged number.
  Bytes length_ratio = 16;

  // --- pages ---

  // Maximum memory wasted to save driver calls or time. It limits the excess of a plan over
  // windows, the waste of packers before a search, the ends of slots after a divergence, and the
  // pages created at once for a plan.
  // Unit: share of the memory concerned. Reason: no program may need more memory with a plan. With
  // one page too few, one page moves in each iteration.
  double spare_share = 0.005;

  // Blocks below this size have windows of their own. The touched part of a block is inspected only
  // from this size on, and idle pages of an arena are returned only in at least this amount.
  // Unit: bytes. Reason: a page that a small block keeps in use then fills with small blocks.
  // PyTorch uses the same limit.
  Bytes small_block = Bytes{1} << 20;

  // Maximum number of mappings that are kept although their page is used elsewhere.
  // Unit: mappings. Reason: a mapping that is still valid when its address is used again saves two
  // driver calls. Keeping all of them would cost the driver memory and time.
  std::size_t stale_mappings = std::size_t{1} << 16;

  // Bytes freed on a stream after which an event is recorded there.
  // Unit: bytes. Reason: a stream that waits later then finds an event that is not much later than
  // the free.
  Bytes freed_per_event = Bytes{64} << 20;

  // Maximum number of iterations in which a plan's pages are rearranged or returned, or in which
  // the slots of a range are counted because its pages are needed elsewhere.
  // Unit: iterations. Reason: an arrangement that is incomplete by then never completes.
  int most_arrangements = 64;

  // --- arenas of the CPU ---

  // Bytes beyond the program's need that slots alone may occupy. Also the bytes of further requests
  // without a slot after which idle pages are returned again in the same iteration.
  // Unit: share of the program's need. Reason: with 1/16, an iteration with thousands of requests
  // uses up its returns before its peak: trl's GRPO took 4 MiB more.
  double lending_share = 1.0 / 8;
};

// The heuristics of this process. Engines and spaces copy them on construction.
inline Heuristics process_heuristics;

}  // namespace pgmo
