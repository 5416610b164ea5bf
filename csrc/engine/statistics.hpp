// Counters and levels of one engine. Counters never decrease, except that `retract` turns a hit
// into a miss. So the difference of two readings has the counts of the time between them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "checks.hpp"
#include "pages/statistics.hpp"
#include "types.hpp"

namespace pgmo {

enum class Miss : std::uint8_t {
  kPersistent,  // the plan has the request, without a slot: a persistent or a shared block
  kUnknown,     // the plan has no such request at this point
  kTooLarge,    // a varying request, larger than its slot
  kOccupied,    // the previous block in its slot is still alive
  kLate,        // its slot overlaps a late block
  kNoArena,     // its stream has no arena now, or no page is available for the slot
  kCount
};

struct Counters {
  std::uint64_t requests = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses[static_cast<int>(Miss::kCount)] = {};
  std::uint64_t requested_bytes = 0;
  std::uint64_t hit_bytes = 0;
  std::uint64_t persistent_bytes = 0;  // bytes of misses of kind kPersistent
  std::uint64_t skipped = 0;           // planned requests that were not made
  std::uint64_t jumps = 0;             // jumps of the cursor to an anchor, see replayer.hpp
  std::uint64_t late = 0;              // blocks that became late
  std::uint64_t takeovers = 0;         // changes of the plan during an iteration
  std::uint64_t iterations = 0;

  void missed(Miss reason, Bytes bytes) noexcept {
    ++requests;
    ++misses[static_cast<int>(reason)];
    requested_bytes += static_cast<std::uint64_t>(bytes);
    if (reason == Miss::kPersistent) persistent_bytes += static_cast<std::uint64_t>(bytes);
  }

  // Turn the hit of a slot that got no page into a miss.
  void retract(Bytes bytes) noexcept {
    --hits;
    hit_bytes -= static_cast<std::uint64_t>(bytes);
    ++misses[static_cast<int>(Miss::kNoArena)];
  }

  // Return the number of requests that matched a request of the plan, with or without a slot.
  std::uint64_t matched() const noexcept {
    return requests - misses[static_cast<int>(Miss::kUnknown)];
  }
};

// Threshold that no block reaches.
inline constexpr Bytes kNoThreshold = std::numeric_limits<Bytes>::max();

// Live bytes of one kind of memory, and their peak.
struct Level {
  Bytes live = 0;
  Bytes peak = 0;
  // Live bytes in "sparse" blocks. These have at least `sparse_from` bytes, and the program is
  // assumed to touch less than half of each.
  Bytes sparse = 0;
  Bytes sparse_from = kNoThreshold;

  void add(Bytes bytes) noexcept {
    live += bytes;
    if (live > peak) peak = live;
    if (bytes >= sparse_from) [[unlikely]]
      sparse += bytes;
  }
  void remove(Bytes bytes) noexcept {
    PGMO_ASSERT(bytes >= 0 && bytes <= live);
    live -= bytes;
    if (bytes >= sparse_from) [[unlikely]]
      sparse -= bytes;
  }

  // Return the live bytes without sparse blocks: an estimate of the resident bytes.
  Bytes dense() const noexcept { return live - sparse; }
};

// One reading of all counters and levels.
struct Statistics {
  Counters counters;
  Level slots;
  Level fallback;
  Bytes arena_bytes = 0;               // framework memory in arenas, without arenas of pages
  Bytes planned_pages = 0;             // bytes of the plans' pages, if streams share pages; else 0
  pages::PageStatistics pages;         // all zero without pages
  std::uint64_t paged_slots = 0;       // slots served so far in arenas of pages
  std::uint64_t paged_slot_bytes = 0;  // sum of the sizes of `paged_slots`, rounded as PyTorch does
  std::uint64_t recorded_requests = 0;
  std::uint64_t recorded_bytes = 0;  // sum over `recorded_requests`
  std::size_t arenas = 0;            // number of current and retired arenas
  std::size_t late_now = 0;          // number of late blocks in current arenas
};

}  // namespace pgmo
