// Replay: the slot for each request, without a search over live blocks.
//
//            planned requests of the iteration
//     ┌────┬────┬────┬────┬────┬────┬────┬────┬────┐
//     │ ✓  │ ✓  │skip│ ✓  │    │    │    │    │    │
//     └────┴────┴────┴────┴────┴────┴────┴────┴────┘
//                       now  cursor
//
// `now` is the last tick that was passed; all planned ends up to it have been looked at, and slots
// that were still alive then are late. Hence the safety argument, which covers every kind of match:
//
//     A living slot that is not late has `now` within its planned lifetime. A slot is served only
//     if its planned lifetime contains `now`, too (after `now` was moved to the slot's own tick
//     where the cursor moves). Two slots whose lifetimes share a tick do not overlap: that is what
//     the plan guarantees. Late blocks are compared one by one.
//
// Matching, when the request does not have the key under the cursor, in this order:
//
//     ┌────┬────┬────┬────┬────┬────┬────┬────┬── ─ ─ ──┬────┬────┐
//     │skip│    │    │    │    │    │    │    │         │anchor   │
//     └────┴────┴────┴────┴────┴────┴────┴────┴── ─ ─ ──┴────┴────┘
//      └─ window ─┘cursor└──── window ───────┘
//
//   1. the nearest in the window ahead that has this size today and is no smaller than those that
//      it passes over;
//   2. one in the window behind that was passed over, and has this size today;
//   3. if the previous request missed: both of them in a row, in the window ahead, or further ahead
//      as an anchor, which is a pair of fixed sizes that the plan has once;
//   4. the varying one under the cursor, if its size is not known today, or if two in a row
//      contradict what is known; or one of the next three, if those before it are smaller;
//   5. else a miss; the cursor stays.
//
//     replayer   slots, lateness, and where the iteration stands    sizes_today   what varies
//     matching   which request of the plan one is

#pragma once

#include <span>
#include <utility>
#include <vector>

#include "engine/replay/late_set.hpp"
#include "engine/replay/replay_plan.hpp"
#include "engine/replay/sizes_today.hpp"
#include "engine/statistics.hpp"
#include "heuristics.hpp"

namespace pgmo {

struct Grown {
  std::uint32_t request;
  Bytes bytes;
};

// What all plans of an engine share.
struct Surroundings {
  const Heuristics& heuristics = process_heuristics;
  LateSet late{};
  Counters counters{};
  std::uint64_t without_arena = 0;  // see Arenas::without

  bool nowhere(std::uint32_t stream_index) const noexcept {
    if (without_arena == 0) [[likely]]
      return false;
    return stream_index >= 64 || (without_arena >> stream_index & 1) != 0;
  }
};

class Replayer {
 public:
  // Score of a prefix for each request of exactly the planned size.
  static constexpr int kFullScore = 8;

  Replayer(ReplayPlan plan, Surroundings& surroundings)
      : plan_(std::move(plan)),
        late_(surroundings.late),
        counters_(surroundings.counters),
        surroundings_(surroundings),
        heuristics_(surroundings.heuristics),
        end_(plan_.ends()),
        skipped_(heuristics_.look_ahead),
        sizes_(plan_) {}
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  // The offset to serve the request from, or kUnplanned. Counts. Throws std::bad_alloc only before
  // it has changed anything that the invariant needs.
  Offset serve(RequestKey key);

  // The bytes that were alive there, or 0 when no slot of this plan is.
  Bytes release(Offset offset) noexcept;

  // The same without a release.
  Bytes size_at(Offset offset) noexcept {
    const Place& place = plan_.place_at(offset);
    return place.living == kNoSlot ? 0 : place.bytes < 0 ? -place.bytes : place.bytes;
  }

  void end_iteration();

  // What the end of the iteration would count, were it now.
  struct Ending {
    std::uint64_t skipped = 0;
    std::uint64_t late = 0;
  };
  Ending ending() noexcept;

  // Takes over in the middle of an iteration, after so many requests.
  void begin_at(std::uint32_t requests_so_far);

  // All living slots become late blocks; the plan is at rest afterwards. In two steps, of which the
  // first may throw and can be repeated.
  void retire_living() {
    make_living_late();
    forget_living();
    rewind();
  }
  void make_living_late();
  void forget_living() noexcept;

  // Living slots that are not late: request, offset, bytes.
  template <typename Visit>
  void for_each_living(Visit&& visit) {
    plan_.for_each_living([&](Place& place) {
      if (place.bytes > 0) visit(plan_.request_of(place.living), place.offset, place.bytes);
    });
  }

  const ReplayPlan& plan() const noexcept { return plan_; }

  // Back to the start of an iteration, with nothing alive.
  void rest() noexcept { rewind(); }

  // Whether the request under the cursor is this one.
  bool expects(RequestKey key) const noexcept;

  // How well an iteration's first requests fill the slots that they would have: kFullScore
  // for each of exactly the planned size, less for smaller ones; -1 when one does not fit.
  int prefix_score(std::span<const RequestKey> keys) const noexcept;

  // Whether a request of this iteration was larger than planned: others will be.
  bool outgrown() const noexcept { return outgrown_; }

  // Varying requests that were larger than their slots, since the last call.
  bool has_grown() const noexcept { return !grown_.empty(); }
  std::vector<Grown> take_grown() { return std::exchange(grown_, {}); }

 private:
  // Requests larger than planned that are kept until `take_grown`: a plan is made anew long before.
  static constexpr std::size_t kMostGrown = std::size_t{1} << 20;

  // Requests that may have been left out before one whose size nobody knows yet.
  static constexpr SlotIndex kLeftOut = 4;

  struct Match {
    SlotIndex request = kNoSlot;
    Miss reason = Miss::kUnknown;  // when there is none
  };

  // Which request of the plan one is (matching.cpp).
  Match resynchronise(RequestKey key);
  SlotIndex find_past_smaller(RequestKey key) const noexcept;
  SlotIndex take_skipped(RequestKey key) noexcept;
  SlotIndex find_second(RequestKey key) noexcept;
  Match match_unknown_size(RequestKey key);
  SlotIndex find_open_past_smaller(RequestKey key) const noexcept;
  void begin_other_length() noexcept;
  SlotIndex window_end() const noexcept;
  bool may_vary_to(SlotIndex request, RequestKey key) const noexcept;
  Match take(SlotIndex request, RequestKey key);

  // Where the iteration stands (replayer.cpp).
  bool fits(SlotIndex request, RequestKey key) const noexcept;
  Offset serve_at(SlotIndex request, RequestKey key) noexcept;
  Offset miss(Miss reason, RequestKey key) noexcept;
  void pass(SlotIndex tick);
  void make_late(Place& place, Tick tick);
  Match advance_to(SlotIndex request);
  void remember_skipped(SlotIndex request) noexcept;
  void rewind() noexcept;

  ReplayPlan plan_;
  LateSet& late_;
  Counters& counters_;
  Surroundings& surroundings_;
  const Heuristics& heuristics_;
  SlotIndex cursor_ = 0;
  Tick now_ = -1;
  const ReplayPlan::End* end_;
  RequestKey missed_ = kNoKey;      // the previous request, if the plan did not know it
  std::vector<SlotIndex> skipped_;  // the last ones that were passed over
  std::size_t skipped_count_ = 0;
  SizesToday sizes_;
  bool outgrown_ = false;
  std::uint64_t answered_before_ = 0;
  std::vector<Grown> grown_;
};

}  // namespace pgmo
