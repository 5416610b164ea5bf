// Which pages of several streams' arenas can be one page.
//
//     ticks        0 ──────────────────────▶
//     stream 0     ▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░   page 7, as the plan has it
//     stream 1     ░░░░░░░░░░░░░░▓▓▓▓▓▓▓░░░   page 2: comes after it each time, so both are one
//
// Arenas are packed stream by stream, and their peaks are not at the same time: FSDP's largest
// buckets come when few activations are left. What is found here is a hint. Whoever gets a page
// still waits for its last user, and where a program departs from its plan pages go other ways.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "types.hpp"

namespace pgmo {

// Pages `first` to `last` of an arena are in use during [from, to).
struct PageUse {
  std::uint32_t arena;
  std::size_t first;
  std::size_t last;
  Tick from;
  Tick to;
  std::uint32_t plan = 0;
  // For each arena the tick from which on its stream comes after that, as the program itself orders
  // the two; null: nothing is known, and whoever gets the page waits.
  const Tick* behind = nullptr;
};

// The ticks of a plan's iteration. Each plan has its own, one after the other.
struct PlanTicks {
  Tick begin;
  Tick count;
};

struct ArenaPage {
  std::uint32_t arena;
  std::size_t page;
  bool operator==(const ArenaPage&) const = default;
};

// The pages that the plans need, each with where it is used: in one arena, or in several, never at
// the same time and always one stream after the other. No more are shared than brings their number
// down to the most that live at once, those first that change hands least often. `plans` are those
// of the uses. Throws std::bad_alloc.
std::vector<std::vector<ArenaPage>> share_pages(const std::vector<PageUse>& uses,
                                                std::uint32_t arenas,
                                                std::span<const PlanTicks> plans);

// The most pages that live at once; no plan needs fewer.
std::size_t most_at_once(const std::vector<PageUse>& uses, std::uint32_t arenas);

}  // namespace pgmo
