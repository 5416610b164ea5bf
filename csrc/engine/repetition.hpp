// Whether an iteration was the one before over again, as far as anything that is counted tells.
//
//     at the end of iteration    k - 1    k        k + 1
//     counters                   a        a + c    a + 2c    the same requests, hits and misses
//     levels                     l        l        l         and the same blocks left alive
//
// From such an iteration there is nothing to learn, so that nobody need look at it.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/statistics.hpp"

namespace pgmo {

class Repetition {
 public:
  // An iteration has ended, with these readings. Returns whether it was the one before over again.
  bool ends(const Statistics& now) noexcept {
    const Counted counted = counted_in(now);
    Counted change;
    for (std::size_t at = 0; at < change.size(); ++at) change[at] = counted[at] - counted_[at];
    const Levels levels = levels_of(now);
    const bool again = change == change_ && levels == levels_;
    counted_ = counted;
    change_ = change;
    levels_ = levels;
    return again;
  }

 private:
  using Counted = std::array<std::uint64_t, 23>;
  using Levels = std::array<std::uint64_t, 6>;

  static Counted counted_in(const Statistics& now) noexcept {
    const Counters& own = now.counters;
    const pages::Statistics& pages = now.pages;
    const auto& misses = own.misses;
    static_assert(static_cast<int>(Miss::kCount) == 6);
    return {own.requests,
            own.hits,
            misses[0],
            misses[1],
            misses[2],
            misses[3],
            misses[4],
            misses[5],
            own.requested_bytes,
            own.hit_bytes,
            own.persistent_bytes,
            own.skipped,
            own.jumps,
            own.late,
            own.takeovers,
            now.fallback_bytes,
            pages.creates,
            pages.releases,
            pages.maps,
            pages.grants,
            pages.unmaps,
            pages.events,
            pages.waits};
  }

  static Levels levels_of(const Statistics& now) noexcept {
    return {static_cast<std::uint64_t>(now.slots.live),
            static_cast<std::uint64_t>(now.fallback.live),
            static_cast<std::uint64_t>(now.arena_bytes),
            static_cast<std::uint64_t>(now.pages.held),
            now.arenas,
            now.late_now};
  }

  Counted counted_{};
  Counted change_{};
  Levels levels_{};
};

}  // namespace pgmo
