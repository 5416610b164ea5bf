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
// Recording and serving are independent: a session can record again and keep its arena. The lock
// `lock_` guards all members, unless a comment says otherwise. The engine releases `lock_` before
// it calls the framework, or a function of the page space that takes a lock. An allocation or a
// free holds `lock_` for well below a microsecond. It takes longer if a table or the recording
// grows, if the request selects another plan, or if pages are lent (lending.hpp). The few session
// calls per iteration may hold it for longer: `events` copies 32 bytes per event, and a change of
// plan or arena visits every offset of the plan. Plans, events and arenas are freed without the
// lock.
//
// The engine owns its plans and the recording. It does not own the memory of its slots: each arena
// has a function `give_back` (pgmo_engine.h), and the page space owns the ranges.

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

// A live block, as `Engine::living` lists it. `kind`: a block of the framework (kForeign), a slot
// that is not late (kSlot), or a late block (kLate). numpy reads this layout.
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

  // Functions for adapters, documented in pgmo_engine.h. All except `mode` take the lock.
  const std::uint32_t* mode() const noexcept;
  void* allocate(std::size_t bytes, std::uint64_t stream) noexcept;
  bool adopt(void* pointer, std::size_t bytes, std::uint64_t stream, bool in_gap = false) noexcept;
  bool release(void* pointer) noexcept;
  bool owns(const void* pointer) noexcept;
  bool shared(void* pointer, std::uint64_t stream) noexcept;
  void ordered(int what, std::uint64_t stream, std::uint64_t event) noexcept;
  Bytes size_of(const void* pointer) noexcept;

  // Call `visit(address, bytes)` under the lock for each live slot, including late blocks.
  void for_each_slot(const std::function<void(std::uintptr_t, Bytes)>& visit);

  bool yield_idle() noexcept;
  Statistics statistics() noexcept;

  // The session calls all functions below, never during an allocation, and one at a time except
  // `pass_step`. Each of them takes the lock, so the caller must not hold it.

  // Discard all recorded events and record until `stop_recording`, which keeps the events.
  void start_recording();
  void stop_recording();

  // Return the recorded events. Throws std::bad_alloc.
  std::vector<Event> events();

  // Free all recorded events. An active recording continues as if it had just been started.
  void forget_recording();

  // Return whether events are missing, because the recording reached its limit or memory ran out.
  bool recording_truncated();

  // From now on, record only tags of this generation; see recorder.hpp.
  void expect_tags(TagGeneration generation);

  // Add a plan whose slots lie below offset `arena_bytes`, and return the plan's number. The first
  // plan is selected at once. `stream_index` of a request is an index into `streams`, which
  // contains the adapter's stream numbers. `behind` has the layout of StreamOrder::behind; it is
  // empty if the order of streams is unknown. Throws std::invalid_argument if a request or the size
  // of `behind` is wrong, if there are too many streams, or if a slot lies outside its arena or is
  // not aligned. Throws std::bad_alloc. Slots are not checked for overlaps, because
  // pgmo/packing/validator.py has checked the plan.
  PlanId add_plan(std::vector<PlannedRequest> requests, std::span<const std::uint64_t> streams,
                  Bytes arena_bytes, Bytes alignment, std::vector<Tick> behind = {});

  // Select the plan for the next requests. Live slots of the previous plan become late. Throws
  // std::invalid_argument if there is no plan with this number, and std::bad_alloc.
  void select_plan(PlanId plan);

  // Return the number of the plan that was selected at the end of the last iteration; 0 if there
  // was no iteration or there is no plan.
  PlanId ended_plan();

  // Stop serving and remove all plans. Live slots become late. Throws std::bad_alloc.
  void remove_plans();

  // Return the requests since the last call that were larger than their slots in `ended_plan()`.
  std::vector<Grown> take_grown();

  // Set the page space that provides pages for arenas and windows. Call this before any arena or
  // window is reserved. The space must outlive the engine.
  void use_pages(pages::Space& space);

  // Reserve the addresses of an arena; pages are mapped there once slots need them. `stream`: the
  // page space's number of the stream that uses the arena. If the arena is never added to the
  // engine, the caller must call its `give_back`. If no addresses are available, `base` and
  // `give_back` are null. Throws std::bad_alloc.
  pgmo_arena reserve_arena(pages::Space& space, Bytes bytes, pages::Stream stream);

  // Add an arena for this stream's slots at the offsets from `begin` on. Adds nothing if it throws:
  // std::invalid_argument if a slot of the stream lies outside the arena or is not aligned there,
  // or if Arenas::add refuses the arena; or std::bad_alloc.
  void add_arena(std::uint64_t stream, Offset begin, const pgmo_arena& arena);

  // Add the spill arena: it holds slots of every stream, at the offsets from `begin` on, which are
  // above those of all other arenas. Call this before `add_arena`, which would otherwise reject the
  // spilled slots. Throws as `add_arena` does.
  void add_spill(Offset begin, const pgmo_arena& arena);
  bool has_arena();

  // Stop serving, and give each arena back as soon as it has no live block: now, or when its last
  // block is freed. Throws std::bad_alloc.
  void detach_arena();

  // Return whether every range is settled, or shares pages with other ranges by plan; see
  // pages/planned/planned_range.hpp.
  bool settled() noexcept;

  // Return all live slots and all tracked framework blocks. Throws std::bad_alloc.
  std::vector<Living> living();

  // Give idle pages of arenas back to the operating system, and return their bytes. Includes
  // current arenas only while the engine does not serve. The pages read as zeros afterwards.
  // Requires that all arenas lie in private memory of the process. Throws std::bad_alloc.
  Bytes return_idle();

  // Return the size in bytes of the smallest block of which the program touched less than half.
  // Return 0 if there is none, or if a block at least as large was touched by half or more. The
  // engine measures framework blocks of at least `Heuristics::small_block` bytes when they are
  // freed. It measures only while lending is on (`lend_idle`) and it records without serving. The
  // figure is correct only for memory that the operating system maps on first touch.
  Bytes sparse_from() noexcept;

  // Set whether idle pages go back to the operating system during an iteration that diverges from
  // its plan; see lending.hpp. Requires that all arenas lie in private memory of the process.
  void lend_idle(bool on);

  // Serve slots from the next request on. Throws std::logic_error if there is no plan or no arena,
  // and std::bad_alloc. If it throws, the engine does not begin to serve.
  void start_serving();

  // Leave all requests to the framework until `resume`. Frees of recorded blocks are recorded.
  void pause();
  void resume();

  // Set whether all requests of a thread are left to the framework. These requests are neither
  // recorded nor served from slots. Throws std::bad_alloc.
  void delegate_thread(ThreadId thread, bool on);

  // Return the activity of each thread in this iteration, of 64 threads at most. Requests of
  // delegated threads are not counted. Throws std::bad_alloc.
  std::vector<Threads::Activity> threads();

  // End the iteration: count skipped requests and late blocks, arrange pages and settle ranges, and
  // select the plan that followed the current plan last time.
  void end_iteration();

  // Allow `pass_iteration` to end the following iterations, up to the first that does not meet
  // these terms. Throws std::bad_alloc.
  void let_pass(Passing::Terms terms);

  // Set the thread on which `pass_step` may end iterations; 0: none.
  void let_steps_pass(ThreadId thread) noexcept;

  // Set the number of steps per iteration. Each call of `pass_iteration` ends one step.
  // `end_iteration` ends the iteration after any number of steps.
  void set_steps(std::uint32_t steps) noexcept;

  // End a step and return true if it is not the last step of its iteration. The last step, and thus
  // the iteration, ends only if the terms allow it and no arena or range needs work. Otherwise
  // change nothing and return false: the session must call `end_iteration`. `pass_step` does the
  // same on the thread of `let_steps_pass`. On all other threads it returns false.
  bool pass_iteration();
  bool pass_step();

  // Replace `passed` by the iterations that `pass_iteration` has ended since the last call. Return
  // the statistics at the end of the last iteration that has passed. Throws std::bad_alloc.
  Statistics take_passed(std::vector<Passed>& passed);

  // `live_levels` returns spans of the iterations since the last `forget_levels`, each with its
  // minimum and its peak of live bytes. `reset_peaks` sets the peaks of slots and of framework
  // blocks to their live bytes.
  LiveLevels live_levels();
  void forget_levels();
  void reset_peaks();

 private:
  using Guard = std::lock_guard<Spinlock>;

  bool has(std::uint32_t bit) const noexcept {
    return (mode_.load(std::memory_order_relaxed) & bit) != 0;
  }
  void set(std::uint32_t bit, bool on) noexcept;
  std::optional<std::uint32_t> stream_index(std::uint64_t stream) noexcept;
  std::vector<std::uint32_t> indices_of(std::span<const std::uint64_t> streams);
  void choose_plan(RequestKey key);
  void switch_to(PlanId plan);
  pages::PageStatistics pages_statistics() noexcept;
  Statistics reading(const pages::PageStatistics& of_pages) const noexcept;
  bool may_pass() const noexcept;
  void close_iteration();
  void note_level() noexcept;

  // The slot that serves a request.
  struct Placed {
    std::uintptr_t address = 0;            // 0: no slot
    pages::PlannedRange* range = nullptr;  // the slot's range, if pages may be missing
    std::uint64_t generation = 0;          // of the range, when the slot was taken
  };

  Placed place(RequestKey key, Offset offset);
  bool release_slot(std::uintptr_t address, Arenas::Released& released) noexcept;
  void vacate(std::uintptr_t address, const Arenas::Released& released) noexcept;
  bool occupy(std::uintptr_t address, Bytes bytes, pages::PlannedRange& range,
              std::uint64_t generation) noexcept;
  template <typename Visit>
  void visit_slots(Visit&& visit, Living::Kind kind);
  template <typename Visit>
  void visit_slots(Visit&& visit) {
    visit_slots(visit, Living::kSlot);
    visit_slots(visit, Living::kLate);
  }
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

    // Return whether the stream order is known for all uses.
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
  void measure_touched(std::uintptr_t address, Bytes bytes) noexcept;
  void count_sparse() noexcept;
  void count_paged_slot(Bytes bytes) noexcept {
    ++paged_slots_;
    paged_slot_bytes_ += static_cast<std::uint64_t>(pages::Meter::rounded(bytes));
    space_.load(std::memory_order_relaxed)->meter().allocated(bytes);
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
  Replayer* replayer_ = nullptr;  // replayer of the selected plan; owned by `plans_`
  PlanId selected_ = 0;
  std::vector<PlanId> successors_;     // by plan: the plan that followed it last time
  PlanId previous_ = 0;                // the plan selected at the end of the last iteration
  std::vector<RequestKey> prefix_;     // the first requests of this iteration
  std::uint32_t requests_so_far_ = 0;  // number of valid entries in `prefix_`, at most `look_ahead`
  std::uint64_t plans_changed_ = 0;    // number of changes to plans or arenas
  Bytes planned_pages_ = 0;            // bytes of the plans' pages, if streams share pages; else 0
  std::uint64_t shared_for_ = 0;       // value of `plans_changed_` when pages were last shared
  int settling_ = 0;  // number of calls in progress that settle ranges or share pages

  Arenas arenas_;
  // The page space, which owns all ranges. The engine does not own it. Also read without the lock.
  std::atomic<pages::Space*> space_{nullptr};
  std::vector<pages::PlannedRange*> ranges_;   // open ranges; owned by `space_`
  std::vector<pages::PlannedRange*> closing_;  // to be closed as soon as `settling_` is 0
  SharedReplayState shared_{heuristics_};
  Passing passing_;
  ThreadId passing_thread_ = 0;
  std::uint32_t steps_ = 1;       // steps per iteration
  std::uint32_t steps_done_ = 0;  // steps of the current iteration that have ended
  LiveLevels levels_;

  Level slots_;                         // live slots, including late blocks
  std::uint64_t paged_slots_ = 0;       // slots ever served in planned ranges
  std::uint64_t paged_slot_bytes_ = 0;  // sum of the sizes of `paged_slots_`, rounded
  Lending lending_{heuristics_};
  // Idle address ranges whose pages a thread is returning to the operating system. They are in the
  // late set meanwhile, so that no slot in them is served. The returning thread changes this list
  // under the lock, and reads it without the lock.
  std::vector<pages::Extent> returning_;
  Bytes least_sparse_ = 0;  // bytes of the smallest block touched by less than half; 0: none so far
  Bytes most_dense_ = 0;    // bytes of the largest block touched by half or more

  // Make a forked child leave every request to the framework, because a child does not make the
  // planned requests. The child can still free inherited blocks. Requires the lock.
  void in_child() noexcept;
  ForkLock fork_lock_{ForkRank::kEngine, this,
                      [](void* self) { static_cast<Engine*>(self)->lock_.lock(); },
                      [](void* self, int child) {
                        if (child != 0) static_cast<Engine*>(self)->in_child();
                        static_cast<Engine*>(self)->lock_.unlock();
                      }};
};

// Call `visit(address, bytes)` for each live slot that is not late (kSlot), or for each late block
// (kLate). Requires the lock.
template <typename Visit>
void Engine::visit_slots(Visit&& visit, Living::Kind kind) {
  if (kind == Living::kLate) {
    arenas_.for_each_late(shared_.late, [&](std::uintptr_t address, Bytes bytes) {
      if (returning_.empty() || !is_returned(address)) visit(address, bytes);
    });
  } else if (replayer_ != nullptr && arenas_.attached()) {
    replayer_->for_each_living([&](SlotIndex request, Offset offset, Bytes bytes) {
      const std::uint32_t stream = key_stream(replayer_->plan().slot(request).key);
      visit(arenas_.address(stream, offset), bytes);
    });
  }
}

// Return the function table for adapters. It lives as long as the process.
const pgmo_engine_api* engine_api() noexcept;

}  // namespace pgmo
