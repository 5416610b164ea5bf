// Counters of replay. They only grow; the difference of two readings belongs to the time between.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "checks.hpp"
#include "pages/statistics.hpp"
#include "types.hpp"

namespace pgmo {

enum class Miss : std::uint8_t {
  kPersistent,  // planned without a slot, because it outlives its iteration
  kUnknown,     // the plan has no such request here
  kTooLarge,    // a varying request, larger than any seen when the plan was made
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
  std::uint64_t persistent_bytes = 0;  // of requests that the plan leaves to the framework
  std::uint64_t skipped = 0;           // planned requests that were not made
  std::uint64_t jumps = 0;             // to anchors
  std::uint64_t late = 0;              // blocks that became late
  std::uint64_t takeovers = 0;         // plans that took over during an iteration
  std::uint64_t iterations = 0;

  void missed(Miss reason, Bytes bytes) noexcept {
    ++requests;
    ++misses[static_cast<int>(reason)];
    requested_bytes += static_cast<std::uint64_t>(bytes);
    if (reason == Miss::kPersistent) persistent_bytes += static_cast<std::uint64_t>(bytes);
  }

  // Count a served slot as a miss, because it has no memory.
  void retract(Bytes bytes) noexcept {
    --hits;
    hit_bytes -= static_cast<std::uint64_t>(bytes);
    ++misses[static_cast<int>(Miss::kNoArena)];
  }

  // Return the number of requests for which the plan has a row.
  std::uint64_t answered() const noexcept {
    return requests - misses[static_cast<int>(Miss::kUnknown)];
  }
};

// Larger than any block.
inline constexpr Bytes kNever = std::numeric_limits<Bytes>::max();

// Live bytes and their peak, of one kind of memory.
struct Level {
  Bytes live = 0;
  Bytes peak = 0;
  // Live bytes in blocks of at least `sparse_from` bytes, which are hardly touched.
  Bytes sparse = 0;
  Bytes sparse_from = kNever;

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

  // Return the live bytes that actually occupy memory.
  Bytes dense() const noexcept { return live - sparse; }
};

// One reading of all counters and levels.
struct Statistics {
  Counters counters;
  Level slots;
  Level fallback;
  Bytes arena_bytes = 0;
  Bytes planned_pages = 0;        // bytes, if arenas of several streams share pages
  pages::PageStatistics pages;    // all zero without pages
  std::uint64_t paged_slots = 0;  // slots ever served in arenas with pages
  std::uint64_t paged_slot_bytes = 0;
  std::uint64_t recorded_requests = 0;
  std::uint64_t recorded_bytes = 0;  // sum over `recorded_requests`
  std::size_t arenas = 0;
  std::size_t late_now = 0;
};

}  // namespace pgmo
