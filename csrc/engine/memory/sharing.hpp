// Decides which pages of the arenas of several streams can be one physical page.
//
//     ticks        0 ──────────────────────▶
//     stream 0     ▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░   page 7 of its arena, as planned
//     stream 1     ░░░░░░░░░░░░░░▓▓▓▓▓▓▓░░░   page 2 of its arena: used later, so both share a page
//
// Arenas are packed stream by stream, and their peaks are at different times: FSDP allocates its
// largest buckets when few activations are live. The result is only a hint to the page space,
// because programs diverge from plans: the next user of a page waits for the last user in any case.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "types.hpp"

namespace pgmo {

// Pages `first` to `last` (inclusive) of an arena are in use during ticks [from, to).
struct PageUse {
  std::uint32_t arena;
  std::size_t first;
  std::size_t last;
  Tick from;
  Tick to;
  std::uint32_t plan = 0;
  // For each arena, the tick from which the program orders its stream after this use. Null if the
  // order is unknown: only the times of use count, and the next user may have to wait. Not owned.
  const Tick* behind = nullptr;
};

// Later than every tick. The sum of a few of these does not overflow.
constexpr Tick kNeverOrdered = std::numeric_limits<Tick>::max() / 4;

// The order of a plan's streams as recorded from the program: see pgmo/profiler/ordering.
struct StreamOrder {
  std::vector<std::uint32_t> streams;  // indices of the plan's streams in the engine

  // Matrix with a row per request and a column per stream: the first tick at which the stream is
  // ordered after all uses of the request's block. Ticks count from the start of the request's
  // iteration. kNeverOrdered or more: never. Empty if the order is unknown.
  std::vector<Tick> behind;
};

// The ticks of one plan's iteration. The ticks of several plans are numbered consecutively.
struct PlanTicks {
  Tick begin;
  Tick count;
};

// A page of an arena, by its index in the arena.
struct ArenaPage {
  std::uint32_t arena;
  std::size_t page;
  bool operator==(const ArenaPage&) const = default;
};

// Return the physical pages that the plans need, each with all arena pages that share it. Arena
// pages that share a physical page are never used at the same time. If the order of streams is
// known, the program orders the streams of these arena pages. Pages with the fewest hand-overs
// between streams are shared first, unless another order needs fewer pages. Sharing ends when the
// number of physical pages equals the most pages in use at once. `arenas`: number of arenas.
// `plans`: ticks of each plan, indexed by PageUse::plan. Throws std::bad_alloc.
std::vector<std::vector<ArenaPage>> share_pages(const std::vector<PageUse>& uses,
                                                std::uint32_t arenas,
                                                std::span<const PlanTicks> plans);

// Return the most pages in use at once, a lower bound for any sharing. Throws std::bad_alloc.
std::size_t most_at_once(const std::vector<PageUse>& uses, std::uint32_t arenas);

}  // namespace pgmo
