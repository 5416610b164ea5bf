// What replay counts. All counters grow; an iteration's share is the difference of two readings.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "checks.hpp"
#include "pages/statistics.hpp"
#include "types.hpp"

namespace pgmo {

enum class Miss : std::uint8_t {
  kPersistent,  // the plan knows the request and has no slot for it: it outlives its iteration for
                // good
  kUnknown,     // the plan has no such request here
  kTooLarge,    // a varying request that is larger than any seen when the plan was made
  kOccupied,    // its slot's previous block is still alive
  kLate,        // its slot overlaps a late block
  kNoArena,     // its stream has no arena at the moment, or no page for the slot can be had
  kCount
};

struct Counters {
  std::uint64_t requests = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses[static_cast<int>(Miss::kCount)] = {};
  std::uint64_t requested_bytes = 0;
  std::uint64_t hit_bytes = 0;
  std::uint64_t retracted_bytes = 0;   // of slots that were found, and could not be used
  std::uint64_t persistent_bytes = 0;  // of requests that the plan leaves out
  std::uint64_t skipped = 0;           // planned requests that did not come
  std::uint64_t jumps = 0;             // to anchors
  std::uint64_t late = 0;              // blocks that became late
  std::uint64_t takeovers = 0;         // plans that took over in the middle of an iteration
  std::uint64_t iterations = 0;

  void missed(Miss reason, Bytes bytes) noexcept {
    ++requests;
    ++misses[static_cast<int>(reason)];
    requested_bytes += static_cast<std::uint64_t>(bytes);
    if (reason == Miss::kPersistent) persistent_bytes += static_cast<std::uint64_t>(bytes);
  }

  // A slot that was served and cannot be used, as it has no memory.
  void retract(Bytes bytes) noexcept {
    --hits;
    hit_bytes -= static_cast<std::uint64_t>(bytes);
    retracted_bytes += static_cast<std::uint64_t>(bytes);
    ++misses[static_cast<int>(Miss::kNoArena)];
  }

  // Bytes that came as planned: with a slot, or as those that the plan leaves out.
  std::uint64_t matched_bytes() const noexcept {
    return hit_bytes + retracted_bytes + persistent_bytes;
  }

  // Requests for which the plan had a row.
  std::uint64_t answered() const noexcept {
    return requests - misses[static_cast<int>(Miss::kUnknown)];
  }
};

// No block has so many bytes.
inline constexpr Bytes kNever = std::numeric_limits<Bytes>::max();

// Bytes alive now and at most, of one kind of memory.
struct Level {
  Bytes live = 0;
  Bytes peak = 0;
  Bytes sparse = 0;  // of those alive: in blocks of `sparse_from` bytes or more, hardly touched
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

  // What takes memory.
  Bytes dense() const noexcept { return live - sparse; }
};

// One reading.
struct Statistics {
  Counters counters;
  Level slots;
  Level fallback;
  Bytes arena_bytes = 0;
  Bytes planned_pages = 0;        // of the arenas of several streams, which share some
  pages::PageStatistics pages;    // all zero where there are none
  std::uint64_t paged_slots = 0;  // that ever were in arenas with pages
  std::uint64_t paged_slot_bytes = 0;
  std::uint64_t recorded_requests = 0;
  std::uint64_t recorded_bytes = 0;  // summed over these
  std::size_t arenas = 0;
  std::size_t late_now = 0;
};

}  // namespace pgmo
