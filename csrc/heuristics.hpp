// The heuristics of the native parts: all tunable numbers of their decisions.
//
// They trade memory for time; no value makes live blocks overlap or a result wrong.
// pgmo/allocator/heuristics.py has the same fields and those of sessions. A test compares defaults
// and documentation.

#pragma once

#include <cstddef>
#include <cstdint>

#include "types.hpp"

namespace pgmo {

struct Heuristics {
  // --- recording ---

  // Further iterations that must agree with the first before the session acts on it: that a
  // structure repeats, that its plan is followed again, or that a plan lacks pages.
  // Unit: iterations. Reason: they show what is freed later, one alone may be an exception, and
  // some pages that idle elsewhere come free within two.
  int confirmations = 2;

  // --- which request of a plan one is ---

  // Requests by which a program's place is found: the first of an iteration choose among several
  // plans, and one that is not expected is searched so far ahead of the cursor and behind it.
  // Unit: requests, each of which a miss costs a comparison. Reason: with more, a block that is new
  // to the program and stays is more often given the slot of another one, which it holds then.
  std::uint32_t look_ahead = 16;

  // Maximum ratio of two lengths of one program. While the size of a varying request is not known,
  // it may be larger than planned by this ratio, and smaller by its square.
  // Unit: ratio. Reason: a prompt and a single token are different programs, and a number that is
  // logged is smaller still than the tensors that a plan has there.
  Bytes length_ratio = 16;

  // --- pages ---

  // Memory that may be wasted to save driver calls or time: by a plan beyond what windows held, by
  // packers before a search, at the ends of slots after a departure, or by pages that are created
  // for a plan at a time.
  // Unit: share of the memory concerned. Reason: no program is to need more memory with a plan, and
  // with one page too few, one moves in each iteration.
  double spare_share = 0.005;

  // Requests below it lie in windows of their own. How much of a block the program touches is
  // inspected from this size on, and idle pages of an arena are returned for no less.
  // Unit: bytes. Reason: a page that a small block keeps is full of small blocks then. PyTorch
  // draws the same line.
  Bytes small_block = Bytes{1} << 20;

  // Maximum number of mappings that stay although their page is used elsewhere.
  // Unit: mappings. Reason: one that is still right when its address is used again saves two driver
  // calls; all of them would cost the driver memory and time.
  std::size_t stale_mappings = std::size_t{1} << 16;

  // Bytes freed on a stream after which an event is recorded there.
  // Unit: bytes. Reason: whoever has to wait later finds an event that is not too late.
  Bytes freed_per_event = Bytes{64} << 20;

  // Maximum number of iterations in which a plan's pages are rearranged or given back, or in which
  // a range whose pages others need is counted.
  // Unit: iterations. Reason: an arrangement that is not complete by then never is.
  int most_arrangements = 64;

  // Maximum bytes of an iteration without a slot, while it counts as following its plan.
  // Unit: share of the iteration's bytes. Reason: where more is missed, slots lie apart from each
  // other, each with the rest of two pages to itself.
  double departing_share = 1.0 / 16;

  // --- arenas of the CPU ---

  // Bytes beyond what the program needs over which slots alone may spread, and further bytes
  // without a slot before idle pages are returned again in the same iteration.
  // Unit: share of what the program needs. Reason: with a sixteenth the returns of an iteration are
  // used up before its peak, where there are thousands of requests: trl's GRPO took 4 MiB more.
  double lending_share = 1.0 / 8;
};

// The heuristics of this process. Engines and spaces copy them on construction.
inline Heuristics process_heuristics;

}  // namespace pgmo
