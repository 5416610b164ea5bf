// Iterations that the engine ends itself, without a call into the Python session: they "pass".
//
//     session     sets terms │                                  │ ends the iteration
//     iteration   ...        │ as planned  as planned  as ...   │ a miss
//                            └─ counted here, read later ───────┘
//
// An iteration that follows its plan, or repeats the previous one, changes nothing in the session.
// Iterations in BACKOFF change nothing either. Ending an iteration in Python takes as long as
// hundreds of requests. So the session sets how many iterations may pass, and on which terms. The
// session reads the counters of passed iterations when it ends the next iteration.
//
// All calls require the engine's lock.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "checks.hpp"
#include "engine/statistics.hpp"

namespace pgmo {

// Counters, or their increases in one iteration, in the order of `Passing::counted_in`.
using Counted = std::array<std::uint64_t, 22>;

// Consecutive iterations of one plan whose counters increased by the same amounts.
struct Passed {
  std::uint64_t iterations;
  std::uint32_t plan;
  Counted change;
};

class Passing {
 public:
  // The conditions on which an iteration passes.
  struct Terms {
    std::uint64_t most = 0;  // maximum number of iterations; 0: the session ends the next one
    bool again = false;      // iterations that repeat the previous one pass, even with misses
    bool anything = false;   // every iteration passes
  };

  // Set the terms for the following iterations. If this throws std::bad_alloc, nothing has changed.
  void set(Terms terms) {
    passed_.reserve(kMost);
    terms_ = terms;
  }
  void stop() noexcept { terms_.most = 0; }
  bool any() const noexcept { return terms_.most > 0; }
  bool anything() const noexcept { return terms_.anything; }

  // Decide whether the current iteration passes. `now`: the statistics at its end. If the iteration
  // passes, count it and return true; otherwise return false and change nothing.
  bool passes(const Statistics& now, std::uint32_t plan) noexcept {
    if (!any()) return false;
    const Counted counted = counted_in(now);
    const Counted change = difference(counted, counted_);
    const Levels levels = levels_of(now);
    const bool again = terms_.again && plan == plan_ && change == change_ && levels == levels_;
    if (!terms_.anything && !again && !is_as_planned(change)) return false;
    if (!passed_.empty() && passed_.back().plan == plan && passed_.back().change == change) {
      ++passed_.back().iterations;
    } else if (passed_.size() < kMost) {
      passed_.push_back({1, plan, change});  // `set` has reserved the capacity
    } else {
      return false;
    }
    --terms_.most;
    note(counted, change, levels, plan);
    at_end_ = now;
    return true;
  }

  // Record that the session ends an iteration with these statistics, and stop until `set`.
  void ends(const Statistics& now, std::uint32_t plan) noexcept {
    stop();
    const Counted counted = counted_in(now);
    note(counted, difference(counted, counted_), levels_of(now), plan);
  }

  // Move the iterations that passed since the last call into `room`, which must be empty, with a
  // capacity for kMost entries. Return the statistics at the end of the last passed iteration.
  Statistics take(std::vector<Passed>& room) noexcept {
    PGMO_ASSERT(room.empty() && room.capacity() >= kMost);
    room.swap(passed_);
    return at_end_;
  }

  // Return the counters in the order of kCountedNames (csrc/bindings/engine.cpp).
  static Counted counted_in(const Statistics& now) noexcept {
    const Counters& own = now.counters;
    const pages::PageStatistics& pages = now.pages;
    const auto& misses = own.misses;
    static_assert(static_cast<int>(Miss::kCount) == 6);
    return std::array{own.requests,
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
                      own.late,
                      pages.creates,
                      pages.releases,
                      pages.maps,
                      pages.grants,
                      pages.unmaps,
                      pages.events,
                      pages.waits,
                      pages.waits_added,
                      pages.hand_overs};
  }

  // Maximum number of entries; each stands for equal consecutive iterations. When all entries are
  // in use, an iteration that differs from the last entry does not pass.
  static constexpr std::size_t kMost = 64;

 private:
  using Levels = std::array<std::uint64_t, 6>;

  // Indices into `Counted`: first miss, requested bytes, first counter of pages. The last `kWaits`
  // entries are events, waits, added waits and hand-overs. They may increase in a planned
  // iteration, because streams share pages by plan.
  static constexpr std::size_t kMisses = 2;
  static constexpr std::size_t kRequestedBytes = kMisses + static_cast<std::size_t>(Miss::kCount);
  static constexpr std::size_t kPages = kRequestedBytes + 5;
  static constexpr std::ptrdiff_t kWaits = 4;
  static_assert(kPages + 5 + kWaits == std::tuple_size_v<Counted>);

  // Return whether the iteration had requests, no miss except of kind kPersistent, and no driver
  // call that creates, releases, maps, grants or unmaps pages.
  static bool is_as_planned(const Counted& change) noexcept {
    const auto is_zero = [](std::uint64_t one) { return one == 0; };
    static_assert(static_cast<int>(Miss::kPersistent) == 0);
    const auto misses = change.begin() + kMisses + 1;
    return change[0] > 0 &&
           std::all_of(misses, misses + static_cast<int>(Miss::kCount) - 1, is_zero) &&
           std::all_of(change.begin() + kPages, change.end() - kWaits, is_zero);
  }

  static Counted difference(const Counted& now, const Counted& before) noexcept {
    Counted change;
    for (std::size_t at = 0; at < change.size(); ++at) change[at] = now[at] - before[at];
    return change;
  }

  void note(const Counted& counted, const Counted& change, const Levels& levels,
            std::uint32_t plan) noexcept {
    counted_ = counted;
    change_ = change;
    levels_ = levels;
    plan_ = plan;
  }

  static Levels levels_of(const Statistics& now) noexcept {
    return {static_cast<std::uint64_t>(now.slots.live),
            static_cast<std::uint64_t>(now.fallback.live),
            static_cast<std::uint64_t>(now.arena_bytes),
            static_cast<std::uint64_t>(now.pages.held),
            now.arenas,
            now.late_now};
  }

  Terms terms_;
  Counted counted_{};
  Counted change_{};
  Levels levels_{};
  std::uint32_t plan_ = 0;
  std::vector<Passed> passed_;
  Statistics at_end_;
};

}  // namespace pgmo
