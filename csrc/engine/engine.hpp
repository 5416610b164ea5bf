// The engine of one framework allocator: bypass, record, replay, and the arenas.
//
//                    ┌── recorder: events ──────────▶ profile (Python)
//     requests ──▶ engine
//                    └── replayer of the current plan ──▶ offset ──▶ arena base + offset
//
//     arenas   of slots, one for each stream: see arenas.hpp
//     ranges   arenas that have pages only where slots need them: see paged.cpp
//
// Recording and serving are independent: a session records again without letting go of its arena.
// One lock guards everything here, and is never held while the framework is called. Allocations and
// frees hold it for nanoseconds, except for the few at which the record grows. The session's calls,
// a few per iteration, may hold it for longer: `events` copies 32 bytes per event, and to change
// the plan or the arena visits every place of the plan. Plans and events that they let go of are
// freed when the lock is no longer held, and so are pages returned to the system.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/memory/arenas.hpp"
#include "engine/memory/lending.hpp"
#include "engine/memory/sharing.hpp"
#include "engine/memory/stream_order.hpp"
#include "engine/passing.hpp"
#include "engine/pgmo_engine.h"
#include "engine/recording/block_table.hpp"
#include "engine/recording/threads.hpp"
#include "engine/replay/late_set.hpp"
#include "engine/replay/replayer.hpp"
#include "engine/spinlock.hpp"
#include "engine/statistics.hpp"
#include "forks.hpp"
#include "heuristics.hpp"
#include "pages/space.hpp"

namespace pgmo {

// A block that is alive between two iterations.
struct Living {
  enum Kind : std::uint64_t { kForeign = 0, kSlot = 1, kLate = 2 };

  std::uint64_t address;
  Bytes bytes;
  std::uint64_t kind;
};
static_assert(sizeof(Living) == 24);

class Engine final : private pages::RangeOwner {
 public:
  using PlanId = std::uint32_t;

  explicit Engine(const Heuristics& heuristics = process_heuristics)
      : heuristics_(heuristics), prefix_(heuristics.look_ahead) {}
  ~Engine() override = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // What adapters call; see pgmo_engine.h.
  const std::uint32_t* mode() const noexcept;
  void* allocate(std::size_t bytes, std::uint64_t stream) noexcept;
  bool adopt(void* pointer, std::size_t bytes, std::uint64_t stream, bool in_gap = false) noexcept;
  bool release(void* pointer) noexcept;
  bool owns(const void* pointer) noexcept;
  bool shared(void* pointer, std::uint64_t stream) noexcept;
  void ordered(int what, std::uint64_t stream, std::uint64_t event) noexcept;
  Bytes size_of(const void* pointer) noexcept;

  // Calls `visit` with the address and the bytes of each living slot, late ones included. The lock
  // is held.
  void for_each_slot(const std::function<void(std::uintptr_t, Bytes)>& visit);

  bool yield_idle() noexcept;
  Statistics statistics() noexcept;

  // What the session calls, one at a time. None of these may run inside an allocation.
  void start_recording();
  void stop_recording();

  // The events from number `from` on. Throws std::bad_alloc.
  std::vector<Event> events(std::size_t from);

  // Gives back the memory of the events, of which none is left. Goes on recording if it did, as
  // after another `start_recording`.
  void forget_recording();
  bool recording_truncated();

  // Records of what is requested from now on only the tags of this generation; see recorder.hpp.
  void expect_tags(TagGeneration generation);

  // Adds a plan; throws std::invalid_argument when it is malformed or larger than the arena.
  // Stream handles are in `streams`, which the rows' stream_index refers to.
  // `behind`, for each row and stream, is what StreamOrder has; empty: nothing is known.
  PlanId add_plan(std::vector<PlannedRequest> requests, std::span<const std::uint64_t> streams,
                  Bytes arena_bytes, Bytes alignment, std::vector<Tick> behind = {});
  void select_plan(PlanId plan);

  // The plan that the last iteration followed to its end, and what has outgrown it since the last
  // call.
  PlanId ended_plan();
  void remove_plans();
  std::vector<Grown> take_grown();

  // The pages that arenas and windows of the session are of, before any of them is reserved.
  void use_pages(pages::Space& space);

  // An arena of addresses alone, on a stream of these pages; to be given back by its own function,
  // also when it was never attached. Its base is null where no addresses can be had.
  pgmo_arena reserve_arena(pages::Space& space, Bytes bytes, pages::Stream stream);

  // An arena for slots of this stream, for the offsets from `begin` on. Throws
  // std::invalid_argument, and changes nothing, when a plan that is here has slots outside of it.
  void add_arena(std::uint64_t stream, Offset begin, const pgmo_arena& arena);

  // And one for slots of every stream, for the offsets from `begin` on, which lies behind all
  // others: to be added first, as plans that use it are checked with each arena.
  void add_spill(Offset begin, const pgmo_arena& arena);
  bool has_arena();

  // Stops serving. Each arena goes back when its last block has died.
  void detach_arena();

  // Whether nobody counts the slots of any range; see pages/planned/planned_range.hpp.
  bool settled() noexcept;

  // What is alive, between two iterations. Throws std::bad_alloc.
  std::vector<Living> living();

  // Has the system take back the pages of memory in which nothing lives: of arenas that are
  // retired, and while nobody is served of the current ones, too. They read as zeros afterwards.
  // Returns how many bytes they are. Only for arenas in the process's own private memory. Throws
  // std::bad_alloc.
  Bytes return_idle();

  // Bytes from which on all blocks were hardly touched, as far as was seen; 0: there are none. Only
  // what the system maps when it is touched tells, so it has to be known to: see `lend_idle`.
  Bytes sparse_from() noexcept;

  // Whether pages of the arenas are returned amid an iteration that departs from its plan: see
  // lending.hpp. Only for arenas in the process's own private memory.
  void lend_idle(bool on);

  // The plans are for what the last iterations were: they are followed at once, whatever was
  // departed from.
  void trust_plans();
  void start_serving();

  // Everything is delegated until `resume`; frees of recorded blocks are still recorded.
  void pause();
  void resume();

  // The same for the requests of one thread alone, which takes no part in what is planned.
  void delegate_thread(ThreadId thread, bool on);

  // What each thread has requested in this iteration, those that are delegated left out.
  std::vector<Threads::Activity> threads();

  void end_iteration();

  // Iterations on these terms need not be looked at from now on, until one ends that is. Throws
  // std::bad_alloc.
  void let_pass(Passing::Terms terms);

  // This thread ends each of its iterations in one way, and nobody else ends any; 0: that is over.
  void let_steps_pass(ThreadId thread) noexcept;

  // Ends an iteration if it passes; else nothing happens, and it has to be ended and looked at.
  // `pass_step` is of the calling thread's iteration, and passes nobody else's.
  bool pass_iteration();
  bool pass_step();

  // What has passed since the last call, and the readings when the last one ended. Throws
  // std::bad_alloc.
  Statistics take_passed(std::vector<Passed>& passed);
  void reset_peaks();

 private:
  bool has(std::uint32_t bit) const noexcept {
    return (mode_.load(std::memory_order_relaxed) & bit) != 0;
  }
  void set(std::uint32_t bit, bool on) noexcept;
  std::optional<std::uint32_t> stream_index(std::uint64_t stream) noexcept;
  Offset find_slot(RequestKey key);
  std::vector<std::uint32_t> indices_of(std::span<const std::uint64_t> streams);
  void choose_plan(RequestKey key);
  void switch_to(PlanId plan);
  pages::PageStatistics pages_statistics() noexcept;
  Statistics reading(const pages::PageStatistics& of_pages) const noexcept;
  bool may_pass() const noexcept;
  void close_iteration();
  // What a slot has left behind that is to be told without the lock.
  struct Vacated {
    pages::PlannedRange* range = nullptr;
    std::uint64_t generation = 0;
    Bytes bytes = 0;
    pgmo_arena empty{};
  };

  // Where a request lies.
  struct Placed {
    std::uintptr_t address = 0;
    pages::PlannedRange* range = nullptr;  // where pages may be missing
    std::uint64_t generation = 0;
    bool thrifty = false;
  };

  Placed place(RequestKey key, Offset offset);
  bool release_slot(std::uintptr_t address, Vacated& vacated) noexcept;
  void vacate(std::uintptr_t address, const Vacated& vacated) noexcept;
  bool occupy(std::uintptr_t address, Bytes bytes, pages::PlannedRange& range,
              std::uint64_t generation, bool thrifty) noexcept;
  bool is_much(std::uint64_t part, std::uint64_t whole) const noexcept;
  bool departs() const noexcept;
  bool is_thrifty() const noexcept;
  void judge_iteration() noexcept;
  template <typename Visit>
  void visit_slots(Visit&& visit);
  void list_living(pages::PlannedRange& range, std::vector<pages::Extent>& living) override;
  void close_range(pages::PlannedRange& range) noexcept;
  pages::PlannedRange* range_at(const void* base) const noexcept;
  void settle_ranges() noexcept;
  void unsettle_ranges();
  bool counts_all_slots() const noexcept;
  void end_settling() noexcept;
  void share_pages() noexcept;
  void arrange_pages() noexcept;

  struct PlannedUses {
    std::vector<PageUse> uses;
    std::vector<PlanTicks> plans;
    std::deque<std::vector<Tick>> rows;  // that uses point to

    // Of all plans it is known how they order streams.
    bool in_order() const noexcept {
      return std::all_of(uses.begin(), uses.end(),
                         [](const PageUse& use) { return use.behind != nullptr; });
    }
    const Tick* behind(const StreamOrder& order, SlotIndex request, Tick before,
                       std::span<const Arenas::Segment* const> segments);
  };
  PlannedUses uses_of_pages(const pages::Space& space,
                            std::vector<pages::PlannedRange*>& ranges) const;
  std::vector<pages::Extent> covered_in(const Arenas::Segment& segment) const;
  Bytes return_pages(bool serving);
  bool hold_idle(bool serving, std::uintptr_t& from);
  void let_idle_go(std::vector<pgmo_arena>& empty) noexcept;
  bool is_returned(std::uintptr_t address) const noexcept {
    return std::ranges::any_of(
        returning_, [&](const pages::Extent& range) { return range.address == address; });
  }
  void lend() noexcept;
  static void trim_malloc() noexcept;
  bool take_lent_in_pause();
  void look_at(std::uintptr_t address, Bytes bytes) noexcept;
  void count_sparse() noexcept;
  void count_paged_slot(Bytes bytes) noexcept {
    ++paged_slots_;
    paged_slot_bytes_ += static_cast<std::uint64_t>(pages::Meter::rounded(bytes));
    space_.load(std::memory_order_relaxed)->meter().born(bytes);
  }
  [[nodiscard]] std::vector<pgmo_arena> retire_arenas();
  bool is_idle() noexcept;
  bool consistent() noexcept;
  bool slots_are_disjoint();
  Bytes foreign_bytes() const;
  void add_segment(Arenas::Segment segment);
  void check_plans(const Arenas& arenas) const;
  void check_slots(const ReplayPlan& plan, const Arenas& arenas) const;

  const Heuristics heuristics_;

  std::atomic<std::uint32_t> mode_{0};
  std::optional<std::uint32_t> mode_when_paused_;
  bool lent_in_pause_ = false;
  Spinlock lock_;

  Threads threads_;
  BlockTable blocks_;
  std::vector<std::uint64_t> streams_;

  std::vector<std::unique_ptr<Replayer>> plans_;
  std::vector<std::unique_ptr<const StreamOrder>> orders_;  // of the plans
  Replayer* replayer_ = nullptr;                            // of the selected plan
  PlanId selected_ = 0;
  std::vector<PlanId> successors_;  // the plan that followed each plan the last time
  PlanId previous_ = 0;             // that the last iteration has followed to its end
  std::vector<RequestKey> prefix_;
  std::uint32_t requests_so_far_ = 0;  // in this iteration; counted up to `look_ahead`
  std::uint64_t plans_changed_ = 0;    // how often, arenas counted in
  Bytes planned_pages_ = 0;            // of several streams
  std::uint64_t shared_for_ = 0;       // when pages were shared last
  int settling_ = 0;  // ranges are being settled, or shared, for the plans there are

  Arenas arenas_;
  std::atomic<pages::Space*> space_{nullptr};  // of all ranges; also read without the lock
  std::vector<pages::PlannedRange*> ranges_;   // that have not been closed
  std::vector<pages::PlannedRange*> closing_;  // once no range is being settled
  int departed_ = 0;                           // iterations to be followed, after one that departed
  bool followed_ = false;                      // by the last iteration, had its slots had pages
  std::uint64_t refused_ = 0;                  // bytes of slots without pages, in this one
  std::uint64_t asked_before_ = 0;             // bytes, before this iteration
  std::uint64_t matched_before_ = 0;           // of these, those that came as planned
  Surroundings here_{heuristics_};
  Passing passing_;
  ThreadId passing_thread_ = 0;

  Level slots_;
  std::uint64_t paged_slots_ = 0;       // that ever were in planned ranges
  std::uint64_t paged_slot_bytes_ = 0;  // summed over these, rounded
  Lending lending_{heuristics_};
  std::vector<pages::Extent> returning_;  // idle ranges that are late blocks meanwhile
  Bytes least_sparse_ = 0;  // of blocks of which less than half was touched; 0: none yet
  Bytes most_dense_ = 0;    // of those of which more was

  // A forked child delegates everything: it has a copy of every block, but it is not the program
  // whose requests were planned.
  void in_child() noexcept;
  ForkLock fork_lock_{ForkRank::kEngine, this,
                      [](void* self) { static_cast<Engine*>(self)->lock_.lock(); },
                      [](void* self, int child) {
                        if (child != 0) static_cast<Engine*>(self)->in_child();
                        static_cast<Engine*>(self)->lock_.unlock();
                      }};
};

// The lock is held.
template <typename Visit>
void Engine::visit_slots(Visit&& visit) {
  if (replayer_ != nullptr && arenas_.attached()) {
    replayer_->for_each_living([&](SlotIndex request, Offset offset, Bytes bytes) {
      const std::uint32_t stream = key_stream(replayer_->plan().slot(request).key);
      visit(arenas_.address(stream, offset), bytes);
    });
  }
  arenas_.for_each_late(here_.late, [&](std::uintptr_t address, Bytes bytes) {
    if (returning_.empty() || !is_returned(address)) visit(address, bytes);
  });
}

// The table that adapters get.
const pgmo_engine_api* engine_api() noexcept;

}  // namespace pgmo
