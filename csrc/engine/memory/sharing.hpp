// Decides which pages of several streams' arenas can be one physical page.
//
//     ticks        0 ──────────────────────▶
//     stream 0     ▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░   page 7, as the plan has it
//     stream 1     ░░░░░░░░░░░░░░▓▓▓▓▓▓▓░░░   page 2: is ordered after it, so both share one page
//
// Arenas are packed stream by stream, and their peaks are at different times: FSDP's largest
// buckets come when few activations are left. The result is a hint. The next user of a page still
// waits for the last one, and if a program diverges from its plan, pages move differently.

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
  // For each arena, the tick from which its stream is ordered after this use by the program. Null:
  // unknown, so the next user of the page waits. Not owned.
  const Tick* behind = nullptr;
};

// The ticks of one plan's iteration. The ranges of several plans follow each other.
struct PlanTicks {
  Tick begin;
  Tick count;
};

struct ArenaPage {
  std::uint32_t arena;
  std::size_t page;
  bool operator==(const ArenaPage&) const = default;
};

// Return the physical pages that the plans need, each with all arena pages that share it. Those are
// never used at the same time, and their streams are always ordered. Pages are shared until their
// number equals the most in use at once, pages with the fewest hand-overs first. `plans` are the
// plans of the uses. Throws std::bad_alloc.
std::vector<std::vector<ArenaPage>> share_pages(const std::vector<PageUse>& uses,
                                                std::uint32_t arenas,
                                                std::span<const PlanTicks> plans);

// Return the most pages in use at once, a lower bound for any sharing.
std::size_t most_at_once(const std::vector<PageUse>& uses, std::uint32_t arenas);

}  // namespace pgmo
