// Engine of one framework allocator: it records requests, serves them from plans, or leaves them to
// the framework.
//
//                    ┌── recorder: events ──────────▶ profile (Python)
//     requests ──▶ engine
//                    └── replayer of the current plan ──▶ offset ──▶ arena base + offset
//
//     arenas   memory of the slots, one for each stream: see arenas.hpp
//     ranges   arenas whose pages are mapped as slots need them: see paged.cpp
//
// Recording and serving are independent: a session can record again and keep its arena. One lock,
// `lock_`, guards all members without a comment that says otherwise. It is never held while the
// framework or the page space is called, except the space's lock-free meter. Allocations and frees
// hold it for well below a microsecond, unless a table or the recording has to grow. The few
// session calls per iteration may hold it for longer: `events` copies 32 bytes per event, and a
// change of plan or arena visits every place of the plan. Plans, events and pages are freed after
// the lock is released.
//
// The engine owns its plans and the recording. It owns no memory that it serves: each arena has a
// `give_back` (pgmo_engine.h), and the page space outlives the engine's ranges.

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

#include "engine/live_levels.hpp"
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

// A block that is alive between two iterations. `kind`: the framework's own (kForeign), a slot
// within its planned lifetime (kSlot), or a late one (kLate). numpy reads this layout.
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

  // Called by adapters from any thread; pgmo_engine.h documents these functions. They take the
  // lock.
  const std::uint32_t* mode() const noexcept;
  void* allocate(std::size_t bytes, std::uint64_t stream) noexcept;
  bool adopt(void* pointer, std::size_t bytes, std::uint64_t stream, bool in_gap = false) noexcept;
  bool release(void* pointer) noexcept;
  bool owns(const void* pointer) noexcept;
  bool shared(void* pointer, std::uint64_t stream) noexcept;
  void ordered(int what, std::uint64_t stream, std::uint64_t event) noexcept;
  Bytes size_of(const void* pointer) noexcept;

  // Call `visit` with address and bytes of each live slot, late ones included. The lock is held
  // during the calls.
  void for_each_slot(const std::function<void(std::uintptr_t, Bytes)>& visit);

  bool yield_idle() noexcept;
  Statistics statistics() noexcept;

  // All functions below are called by the session: one call at a time, and never inside an
  // allocation. They take the lock, so no caller may hold it.

  // Discard all recorded events and record until `stop_recording`, which keeps the events.
  void start_recording();
  void stop_recording();

  // Return the recorded events from index `from` on. Throws std::bad_alloc.
  std::vector<Event> events(std::size_t from);

  // Free all recorded events. An active recording continues as if it had just been started.
  void forget_recording();

  // Return whether events are missing, because the recording reached its limit or memory ran out.
  bool recording_truncated();

  // Record tags of this generation only, from now on; see recorder.hpp.
  void expect_tags(TagGeneration generation);

  // Add a plan of `arena_bytes` bytes and return its number; the first plan is selected at once.
  // `stream_index` of a request is an index into `streams`, which contains the adapter's numbers of
  // streams. `behind` has the layout of StreamOrder::behind; empty if the order of streams is
  // unknown. Throws std::invalid_argument if a request is malformed or its slot lies outside the
  // arena of its stream. Overlaps of slots are not checked here: pgmo/packing/validator.py has
  // excluded them.
  PlanId add_plan(std::vector<PlannedRequest> requests, std::span<const std::uint64_t> streams,
                  Bytes arena_bytes, Bytes alignment, std::vector<Tick> behind = {});

  // Serve the next requests from this plan. Throws std::invalid_argument if there is no such plan.
  void select_plan(PlanId plan);

  // Return the plan that was selected at the end of the last iteration. `take_grown` returns that
  // plan's requests that were larger than their slots since the last call. `remove_plans` also
  // stops serving; live slots become late.
  PlanId ended_plan();
  void remove_plans();
  std::vector<Grown> take_grown();

  // Set the page space of the session's arenas and windows. Call it before reserving any of them.
  // The space must outlive its ranges.
  void use_pages(pages::Space& space);

  // Reserve an arena of addresses without pages, on a stream of these pages. The caller gives it
  // back with its `give_back`, even if it was never added to the engine. Its base is null if no
  // addresses are available. Throws std::bad_alloc.
  pgmo_arena reserve_arena(pages::Space& space, Bytes bytes, pages::Stream stream);

  // Add an arena for slots of this stream, for the offsets from `begin` on. Throws
  // std::invalid_argument, and adds nothing, if a plan has slots outside it or Arenas::add refuses
  // it.
  void add_arena(std::uint64_t stream, Offset begin, const pgmo_arena& arena);

  // Add an arena for slots of every stream, for the offsets from `begin` on, which lie behind all
  // other arenas. Add it first: each later arena is checked against plans that use it.
  void add_spill(Offset begin, const pgmo_arena& arena);
  bool has_arena();

  // Stop serving, and give each arena back as soon as it has no live block: now, or when its last
  // one is freed.
  void detach_arena();

  // Return whether no range waits to be settled: the pages of each range are all mapped, or shared
  // by plan with another range. See pages/planned/planned_range.hpp.
  bool settled() noexcept;

  // Return all live blocks of the engine and of the framework. Throws std::bad_alloc.
  std::vector<Living> living();

  // Return idle pages to the system, and return how many bytes they have. Covers retired arenas,
  // and current ones if the engine does not serve. The pages read as zeros afterwards. Only for
  // arenas in the process's own private memory. Throws std::bad_alloc.
  Bytes return_idle();

  // Return the size in bytes of the smallest block of which the program touched less than half.
  // Return 0 if there is none, or if a block at least as large was touched by half or more. Blocks
  // from `Heuristics::small_block` bytes on are measured when they are freed, after
  // `lend_idle(true)`, while the engine records and does not serve. Memory shows touches only if
  // the system maps it on first touch.
  Bytes sparse_from() noexcept;

  // Set whether idle pages return to the system during an iteration that diverges from its plan:
  // see lending.hpp. Only for arenas in the process's own private memory.
  void lend_idle(bool on);

  // Serve slots from the next request on. Throws std::logic_error if there is no plan or no arena,
  // and std::bad_alloc. If it throws, the engine does not begin to serve.
  void start_serving();

  // Leave all requests to the framework until `resume`. Frees of recorded blocks are still
  // recorded.
  void pause();
  void resume();

  // Leave the requests of one thread to the framework (`on`), or stop doing so. They are neither
  // recorded nor planned.
  void delegate_thread(ThreadId thread, bool on);

  // Return the activity of each thread in this iteration, except delegated threads.
  std::vector<Threads::Activity> threads();

  // End the iteration on behalf of the session: count skipped requests and late blocks, rearrange
  // pages, and select the plan that followed this one last time.
  void end_iteration();

  // Allow `pass_iteration` to end the following iterations, up to the first that does not meet
  // these terms. Throws std::bad_alloc.
  void let_pass(Passing::Terms terms);

  // Set the thread on which `pass_step` may end iterations; 0: none. It must be the only thread
  // that ends iterations.
  void let_steps_pass(ThreadId thread) noexcept;

  // Count an iteration only after this many steps. A step is one call of `pass_iteration` that the
  // session would otherwise follow with `end_iteration`, which always ends the iteration.
  void set_steps(std::uint32_t steps) noexcept;

  // End the step and return true if it is not the last of its iteration, or if the terms allow the
  // iteration to end. Otherwise change nothing and return false: the session must call
  // `end_iteration`. `pass_step` does the same on the thread of `let_steps_pass`; on any other, it
  // returns false.
  bool pass_iteration();
  bool pass_step();

  // Replace `passed` by the iterations that `pass_iteration` has ended since the last call. Return
  // the statistics at the end of the last of them. Throws std::bad_alloc.
  Statistics take_passed(std::vector<Passed>& passed);

  // Return the live bytes at the ends of iterations since the last `forget_levels`. `reset_peaks`
  // sets the peaks of slots and of framework blocks to what is live now.
  LiveLevels live_levels();
  void forget_levels();
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
  void note_level() noexcept;

  // Work for a freed slot that remains once the lock is released: report the slot to its range, and
  // give back its arena if the arena is empty. `generation`: that of the range when the slot was
  // freed.
  struct Vacated {
    pages::PlannedRange* range = nullptr;
    std::uint64_t generation = 0;
    Bytes bytes = 0;
    pgmo_arena empty{};
  };

  // The address chosen for a request.
  struct Placed {
    std::uintptr_t address = 0;
    pages::PlannedRange* range = nullptr;  // set if its pages may be missing
    std::uint64_t generation = 0;          // of the range, read when the slot was taken
  };

  Placed place(RequestKey key, Offset offset);
  bool release_slot(std::uintptr_t address, Vacated& vacated) noexcept;
  void vacate(std::uintptr_t address, const Vacated& vacated) noexcept;
  bool occupy(std::uintptr_t address, Bytes bytes, pages::PlannedRange& range,
              std::uint64_t generation) noexcept;
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
    std::deque<std::vector<Tick>> rows;  // owns the rows that `uses` points to

    // Return whether the stream order of every plan is known.
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
  void release_held_idle(std::vector<pgmo_arena>& empty) noexcept;
  bool is_returned(std::uintptr_t address) const noexcept {
    return std::ranges::any_of(
        returning_, [&](const pages::Extent& range) { return range.address == address; });
  }
  void lend() noexcept;
  static void trim_malloc() noexcept;
  bool take_lent_in_pause();
  void measure_touched(std::uintptr_t address, Bytes bytes) noexcept;
  void count_sparse() noexcept;
  void count_paged_slot(Bytes bytes) noexcept {
    ++paged_slots_;
    paged_slot_bytes_ += static_cast<std::uint64_t>(pages::Meter::rounded(bytes));
    space_.load(std::memory_order_relaxed)->meter().born(bytes);
  }
  [[nodiscard]] std::vector<pgmo_arena> retire_arenas();
  void note_streams_without_arena() noexcept;
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
  std::vector<std::unique_ptr<const StreamOrder>> orders_;  // one per plan
  Replayer* replayer_ = nullptr;  // of the selected plan; owned by `plans_`
  PlanId selected_ = 0;
  std::vector<PlanId> successors_;     // by plan: the plan that followed it last time
  PlanId previous_ = 0;                // the plan selected at the end of the last iteration
  std::vector<RequestKey> prefix_;     // the first requests of this iteration
  std::uint32_t requests_so_far_ = 0;  // number of valid entries in `prefix_`, at most `look_ahead`
  std::uint64_t plans_changed_ = 0;    // number of changes to plans or arenas
  Bytes planned_pages_ = 0;       // bytes of pages, if arenas of several streams share them; else 0
  std::uint64_t shared_for_ = 0;  // value of `plans_changed_` when pages were last shared
  int settling_ = 0;              // number of calls in progress that settle or share ranges

  Arenas arenas_;
  // The page space, which owns all ranges; not owned. Also read without the lock.
  std::atomic<pages::Space*> space_{nullptr};
  std::vector<pages::PlannedRange*> ranges_;   // open ranges; owned by `space_`
  std::vector<pages::PlannedRange*> closing_;  // to be closed as soon as `settling_` is 0
  SharedReplayState shared_{heuristics_};
  Passing passing_;
  ThreadId passing_thread_ = 0;
  std::uint32_t steps_ = 1;       // steps per iteration
  std::uint32_t steps_done_ = 0;  // steps of the current iteration that have ended
  LiveLevels levels_;

  Level slots_;                         // live slots, late ones included
  std::uint64_t paged_slots_ = 0;       // slots ever served in planned ranges
  std::uint64_t paged_slot_bytes_ = 0;  // sum of their sizes, rounded
  Lending lending_{heuristics_};
  // Idle ranges of the batch whose pages are being returned. Each is in the late set meanwhile, so
  // that no slot is served there. One thread at a time fills and reads this list.
  std::vector<pages::Extent> returning_;
  Bytes least_sparse_ = 0;  // bytes of the smallest block touched by less than half; 0: none yet
  Bytes most_dense_ = 0;    // bytes of the largest block touched by half or more

  // Make a forked child leave every request to the framework: its requests are not the planned
  // ones. Inherited blocks can still be freed. Requires the lock.
  void in_child() noexcept;
  ForkLock fork_lock_{ForkRank::kEngine, this,
                      [](void* self) { static_cast<Engine*>(self)->lock_.lock(); },
                      [](void* self, int child) {
                        if (child != 0) static_cast<Engine*>(self)->in_child();
                        static_cast<Engine*>(self)->lock_.unlock();
                      }};
};

// Call `visit(address, bytes)` for each live slot, late ones included. Requires the lock.
template <typename Visit>
void Engine::visit_slots(Visit&& visit) {
  if (replayer_ != nullptr && arenas_.attached()) {
    replayer_->for_each_living([&](SlotIndex request, Offset offset, Bytes bytes) {
      const std::uint32_t stream = key_stream(replayer_->plan().slot(request).key);
      visit(arenas_.address(stream, offset), bytes);
    });
  }
  arenas_.for_each_late(shared_.late, [&](std::uintptr_t address, Bytes bytes) {
    if (returning_.empty() || !is_returned(address)) visit(address, bytes);
  });
}

// Return the function table for adapters. It lives as long as the process.
const pgmo_engine_api* engine_api() noexcept;

}  // namespace pgmo
