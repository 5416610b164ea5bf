// The heuristics of the native parts: every number by which they decide, and can be made to decide
// otherwise.
//
// None of them can make two living blocks overlap, or a result wrong: they trade memory against
// time. pgmo/allocator/heuristics.py has the same fields, with those of sessions; a test compares
// defaults and words.

#pragma once

#include <cstddef>
#include <cstdint>

#include "types.hpp"

namespace pgmo {

struct Heuristics {
  // --- which request of a plan one is ---

  // First requests of an iteration that choose among several plans.
  // Unit: requests. Reason: structures that begin alike for longer are told apart as they go on.
  std::uint32_t first_requests = 16;

  // Requests ahead of the cursor, and behind it, in which one that is not expected is searched.
  // Unit: requests, each of which a miss costs a comparison. Reason: with more, a block that is new
  // to the program and stays is more often given the slot of another one, which it holds then.
  std::uint32_t look_ahead = 16;

  // Ratio by which a varying request may be smaller than planned, while its size is not known.
  // Unit: ratio. Reason: what grows with the square of a length has this one at a sixteenth of it.
  // A number that is logged is smaller still than the tensors that a plan has there.
  Bytes most_shrinkage = 256;

  // Maximum size of a varying request, while no length as large was planned.
  // Unit: multiple of its planned size. Reason: with 2 or 16 fewer bytes were served.
  Bytes most_growth = 4;

  // Maximum number of times in an iteration that its plan is made larger.
  // Unit: times. Reason: more are for sizes that follow no law.
  int most_stretches = 3;

  // --- pages ---

  // Requests below it lie in windows of their own. How much of a block the program touches is
  // inspected from this size on.
  // Unit: bytes. Reason: a page that a small block keeps is full of small blocks then. PyTorch
  // draws the same line.
  Bytes small_block = Bytes{1} << 20;

  // Maximum waste at the ends of a planned range's slots, of the bytes in them, while a program
  // departs from its plan. Slots that waste more are refused.
  // Unit: share of bytes. Reason: windows waste about as much.
  double slot_waste = 1.0 / 128;

  // Maximum number of mappings that stay although their page is used elsewhere.
  // Unit: mappings. Reason: one that is still right when its address is used again saves two driver
  // calls; all of them would cost the driver memory and time.
  std::size_t stale_mappings = std::size_t{1} << 16;

  // Bytes freed on a stream after which an event is recorded there.
  // Unit: bytes. Reason: whoever has to wait later finds an event that is not too late.
  Bytes freed_per_event = Bytes{64} << 20;

  // Iterations in a row in which a plan lacks pages, before pages are created for it.
  // Unit: iterations. Reason: some that idle elsewhere come free within two.
  int missing_patience = 3;

  // Maximum number of pages that are created for a plan at a time, where it is not known how many
  // it needs.
  // Unit: share of the plan's pages. Reason: with one too few, a page moves in each iteration.
  double few_pages = 0.01;

  // Maximum number of iterations in which a plan's pages are rearranged or given back, or in which
  // a range whose pages others need is counted.
  // Unit: iterations. Reason: an arrangement that is not complete by then never is.
  int most_arrangements = 64;

  // --- pages of a planned arena ---

  // Maximum bytes of an iteration without a slot, while it counts as following its plan.
  // Unit: share of the iteration's bytes. Reason: where more is missed, slots lie apart from each
  // other, each with the rest of two pages to itself.
  double departing_share = 1.0 / 16;

  // Iterations in a row that follow their plan, before pages are mapped for it again.
  // Unit: iterations. Reason: where iterations that follow take turns with others, pages would go
  // back and forth.
  int followed = 2;

  // --- arenas of the CPU ---

  // Bytes beyond what the program needs at which idle pages of an arena are returned.
  // Unit: bytes. Reason: each return costs calls of the system.
  Bytes lending_slack = Bytes{2} << 20;

  // Further bytes without a slot, before idle pages are returned again in the same iteration.
  // Unit: share of what the program needs. Reason: each return costs calls of the system.
  double lending_step = 1.0 / 16;

  // Bytes beyond what the program needs over which slots alone may spread.
  // Unit: share of what the program needs. Reason: with a sixteenth the returns of an iteration are
  // used up before its peak, where there are thousands of requests: trl's GRPO took 4 MiB more.
  double lending_spread = 1.0 / 8;

  // Maximum number of such returns for slots in an iteration.
  // Unit: returns. Reason: one with many requests would spend its time on them.
  int lending_sweeps = 8;
};

// Those of this process. Engines and spaces copy them when they are made.
inline Heuristics process_heuristics;

}  // namespace pgmo
