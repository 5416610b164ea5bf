// Replayer of one plan: finds the slot for each request without a search over live blocks.
//
//            planned requests of the iteration
//     ┌────┬────┬────┬────┬────┬────┬────┬────┬────┐
//     │ ✓  │ ✓  │skip│ ✓  │    │    │    │    │    │
//     └────┴────┴────┴────┴────┴────┴────┴────┴────┘
//                       now  cursor
//
// `now` is the last tick passed. All planned ends up to `now` have been checked. Each slot that is
// live past its planned end is late. The safety argument covers every kind of match:
//
//     The planned lifetime of a live slot that is not late contains `now`. A slot is served only
//     if its own planned lifetime contains `now`; if the cursor moves to the slot's request, `now`
//     first moves there, too. The plan guarantees that two slots whose lifetimes share a tick do
//     not overlap. A slot that overlaps a late block is not served.
//
// A key combines size and stream of a request. If the key of a request differs from the key under
// the cursor, these candidates are tried in turn:
//
//     ┌────┬────┬────┬────┬────┬────┬────┬────┬── ─ ─ ──┬────┬────┐
//     │skip│    │    │    │    │    │    │    │         │anchor   │
//     └────┴────┴────┴────┴────┴────┴────┴────┴── ─ ─ ──┴────┴────┘
//      └─ window ─┘cursor└──── window ───────┘
//
//   1. the nearest request in the window ahead that is known to have this size in this iteration,
//      and is no smaller than each request that it skips;
//   2. a skipped request in the window behind that is known to have this size, and whose planned
//      lifetime contains `now`;
//   3. if the plan did not have the previous request: a pair of consecutive requests of the plan,
//      of which the first matches the previous request, and the second this one. The pair lies in
//      the window ahead, or further ahead if it is an anchor: a pair of fixed sizes that occurs
//      once in the plan;
//   4. the varying request under the cursor, if its size in this iteration is not known, or two
//      requests in a row contradict the known size;
//   5. one of the next three requests, if its size varies and is unknown, and all requests before
//      it are smaller.
//
// Without a candidate, the request is a miss, and the cursor stays.
//
//     replayer          slots, late blocks, and position in the iteration
//     matching          the request of the plan that matches
//     iteration_sizes   sizes of varying requests in this iteration

#pragma once

#include <span>
#include <utility>
#include <vector>

#include "engine/replay/iteration_sizes.hpp"
#include "engine/replay/late_set.hpp"
#include "engine/replay/replay_plan.hpp"
#include "engine/statistics.hpp"
#include "heuristics.hpp"

namespace pgmo {

// A varying request that was larger than its slot.
struct Grown {
  std::uint32_t request;
  Bytes bytes;  // requested bytes
};

// State that the replayers of all plans of an engine share. The engine owns it.
struct SharedReplayState {
  const Heuristics& heuristics = process_heuristics;
  LateSet late{};
  Counters counters{};
  std::uint64_t without_arena = 0;  // streams without an arena, one bit each: see Arenas::without

  // Return whether the stream has no arena now.
  bool lacks_arena(std::uint32_t stream_index) const noexcept {
    if (without_arena == 0) [[likely]]
      return false;
    return stream_index >= 64 || (without_arena >> stream_index & 1) != 0;
  }
};

class Replayer {
 public:
  // Prefix score of a request with exactly the planned size.
  static constexpr int kFullScore = 8;

  Replayer(ReplayPlan plan, SharedReplayState& shared)
      : plan_(std::move(plan)),
        late_(shared.late),
        counters_(shared.counters),
        shared_(shared),
        heuristics_(shared.heuristics),
        end_(plan_.ends()),
        skipped_(heuristics_.look_ahead),
        sizes_(plan_) {}
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  // Find the slot for a request, and count the request. Return the slot's offset; kUnplanned: a
  // miss. If this throws std::bad_alloc, no slot is taken and the safety argument still holds.
  Offset serve(RequestKey key);

  // Free the slot at the offset; return its bytes, or 0 if no slot of this plan is alive there.
  Bytes release(Offset offset) noexcept;

  // Return the bytes of the live slot at the offset, or 0.
  Bytes size_at(Offset offset) noexcept {
    const Place& place = plan_.place_at(offset);
    return place.living == kNoSlot ? 0 : place.bytes < 0 ? -place.bytes : place.bytes;
  }

  // Check all remaining planned ends, count skipped requests, and return to the first request.
  void end_iteration();

  // The counts that `end_iteration` would add to the counters now.
  struct Ending {
    std::uint64_t skipped = 0;
    std::uint64_t late = 0;
  };
  Ending ending() noexcept;

  // Continue an iteration that another plan began, after this number of requests.
  void begin_at(std::uint32_t requests_so_far);

  // Make all live slots late blocks, and return to the first request. If `make_living_late` throws
  // std::bad_alloc, the caller may repeat the call.
  void retire_living() {
    make_living_late();
    forget_living();
    restart();
  }
  void make_living_late();
  void forget_living() noexcept;

  // Call `visit` with request, offset and bytes of each live slot that is not late.
  template <typename Visit>
  void for_each_living(Visit&& visit) {
    plan_.for_each_living([&](Place& place) {
      if (place.bytes > 0) visit(plan_.request_of(place.living), place.offset, place.bytes);
    });
  }

  const ReplayPlan& plan() const noexcept { return plan_; }

  // Return to the first request.
  void restart() noexcept;

  // Return whether the key fits the request under the cursor.
  bool expects(RequestKey key) const noexcept;

  // Return how well these first requests of an iteration fill their slots; -1 if one does not fit.
  // A request of exactly the planned size adds kFullScore, a smaller request proportionally less.
  int prefix_score(std::span<const RequestKey> keys) const noexcept;

  // `take_grown` returns the requests that were larger than their slots since the last call.
  bool has_grown() const noexcept { return !grown_.empty(); }
  std::vector<Grown> take_grown() { return std::exchange(grown_, {}); }

 private:
  // Maximum number of entries kept for `take_grown`. Later entries are dropped.
  static constexpr std::size_t kMostGrown = std::size_t{1} << 20;

  // Number of requests, from the cursor on, among which a varying request of unknown size is
  // searched. Some iterations leave out a few requests, such as a logged number.
  static constexpr SlotIndex kLeftOut = 4;

  struct Match {
    SlotIndex request = kNoSlot;
    Miss reason = Miss::kUnknown;  // if no request matches
  };

  // Matching (matching.cpp).
  Match resynchronise(RequestKey key);
  SlotIndex find_past_smaller(RequestKey key) const noexcept;
  SlotIndex take_skipped(RequestKey key) noexcept;
  SlotIndex find_pair(RequestKey key) noexcept;
  Match match_unknown_size(RequestKey key);
  SlotIndex find_open_past_smaller(RequestKey key) const noexcept;
  void begin_other_length() noexcept;
  SlotIndex window_end() const noexcept;
  bool may_vary_to(SlotIndex request, RequestKey key) const noexcept;
  Match match_at(SlotIndex request, RequestKey key);

  // Position in the iteration (replayer.cpp).
  bool fits(SlotIndex request, RequestKey key) const noexcept;
  Offset serve_at(SlotIndex request, RequestKey key) noexcept;
  Offset miss(Miss reason, RequestKey key) noexcept;
  void pass(SlotIndex tick);
  void make_late(Place& place, Tick tick);
  Match advance_to(SlotIndex request);
  void remember_skipped(SlotIndex request) noexcept;
  std::uint64_t skipped() const noexcept;

  ReplayPlan plan_;
  LateSet& late_;
  Counters& counters_;
  SharedReplayState& shared_;
  const Heuristics& heuristics_;
  SlotIndex cursor_ = 0;
  Tick now_ = -1;                   // the last tick passed
  const ReplayPlan::End* end_;      // the first planned end that has not been checked
  RequestKey missed_ = kNoKey;      // key of the previous request if the plan did not have it
  std::vector<SlotIndex> skipped_;  // the most recently skipped requests
  std::size_t skipped_count_ = 0;   // valid entries of `skipped_`, at most `look_ahead`
  IterationSizes sizes_;
  std::uint64_t matched_before_ = 0;  // `Counters::matched` at the start of the iteration
  std::vector<Grown> grown_;
};

}  // namespace pgmo
