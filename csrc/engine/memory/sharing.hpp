// Which pages of several streams' arenas can be one page.
//
//     ticks        0 ──────────────────────▶
//     stream 0     ▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░   page 7, as the plan has it
//     stream 1     ░░░░░░░░░░░░░░▓▓▓▓▓▓▓░░░   page 2: never lives with it, so both are one
//
// Arenas are packed stream by stream, and their peaks are not at the same time: FSDP's largest
// buckets come when few activations are left. What is found here is a hint. Whoever gets a page
// still waits for its last user, and where a program departs from its plan pages go other ways.

#pragma once

#include <cstddef>
#include <cstdint>
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
};

struct ArenaPage {
  std::uint32_t arena;
  std::size_t page;
  bool operator==(const ArenaPage&) const = default;
};

// The pages that the plan needs, each with where it is used: in one arena, or in several, never at
// the same time. No more are shared than brings their number down to the most that live at once,
// those first that change hands least often. Throws std::bad_alloc.
std::vector<std::vector<ArenaPage>> share_pages(const std::vector<PageUse>& uses,
                                                std::uint32_t arenas);

// The most pages that live at once; no plan needs fewer.
std::size_t most_at_once(const std::vector<PageUse>& uses, std::uint32_t arenas);

}  // namespace pgmo
