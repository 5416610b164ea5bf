// Functions for recording, arenas, iterations and modes. Functions for plans are in plans.cpp,
// functions for allocations in engine.cpp.

#include <stdexcept>
#include <utility>

#include "checks.hpp"
#include "engine/engine.hpp"
#include "engine/memory/arena.hpp"

namespace pgmo {

void Engine::start_recording() {
  const Guard guard(lock_);
  blocks_.recorder.start();
  set(PGMO_RECORDING, true);
}

void Engine::stop_recording() {
  const Guard guard(lock_);
  set(PGMO_RECORDING, false);
  blocks_.recorder.stop();
}

std::vector<Event> Engine::events() {
  // Reserve memory without the lock, and hold the lock only for the copy. If other threads
  // meanwhile record more events than fit, the next round reserves again.
  constexpr std::size_t kSpareEvents = 1024;  // capacity for events recorded during the reservation
  std::vector<Event> copy;
  for (std::size_t room = 0;; copy.reserve(room)) {
    const Guard guard(lock_);
    const std::vector<Event>& all = blocks_.recorder.events();
    if (all.size() <= copy.capacity()) {
      copy.assign(all.begin(), all.end());
      return copy;
    }
    room = all.size() + kSpareEvents;
  }
}

void Engine::forget_recording() {
  std::vector<Event> events;  // destroyed after the guard
  const Guard guard(lock_);
  events = blocks_.recorder.take();
}

bool Engine::recording_truncated() {
  const Guard guard(lock_);
  return blocks_.recorder.truncated();
}

void Engine::expect_tags(TagGeneration generation) {
  const Guard guard(lock_);
  blocks_.recorder.expect_tags(generation);
}

std::vector<std::uint32_t> Engine::indices_of(std::span<const std::uint64_t> streams) {
  const Guard guard(lock_);
  std::vector<std::uint32_t> indices;
  for (const std::uint64_t stream : streams) {
    const auto known = stream_index(stream);
    indices.push_back(known.value_or(static_cast<std::uint32_t>(streams_.size())));
    if (known) continue;
    if (streams_.size() == kMostStreamIndices) throw std::invalid_argument("too many streams");
    streams_.push_back(stream);
  }
  return indices;
}

void Engine::add_arena(std::uint64_t stream, Offset begin, const pgmo_arena& arena) {
  const std::vector<std::uint32_t> index = indices_of({&stream, 1});
  const Guard guard(lock_);
  add_segment({index[0], begin, arena});
}

void Engine::add_spill(Offset begin, const pgmo_arena& arena) {
  const Guard guard(lock_);
  add_segment({Arenas::kEveryStream, begin, arena});
}

void Engine::add_segment(Arenas::Segment segment) {
  segment.range = range_at(segment.arena.base);
  Arenas checked;  // check the plans before anything changes
  if (const Arenas::Segment* const spill = arenas_.spilled()) checked.add(*spill);
  checked.add(segment);
  check_plans(checked);
  arenas_.add(segment);
  ++plans_changed_;
  note_streams_without_arena();
  blocks_.forget_within(address_of(segment.arena.base), segment.arena.bytes);
}

bool Engine::has_arena() {
  const Guard guard(lock_);
  return arenas_.attached();
}

void Engine::detach_arena() {
  std::vector<pgmo_arena> empty;
  {
    const Guard guard(lock_);
    set(PGMO_SERVING, false);
    empty = retire_arenas();
    if (replayer_ != nullptr) replayer_->restart();
    PGMO_ASSERT_EXPENSIVE(consistent());
  }
  for (const pgmo_arena& arena : empty) give_back(arena);
}

// This works in every mode, even in a pause: an evaluation may need the memory of an arena that is
// idle between two training steps.
bool Engine::yield_idle() noexcept {
  std::vector<pgmo_arena> empty;
  try {
    const Guard guard(lock_);
    if (!arenas_.attached() || !is_idle()) return false;
    empty = retire_arenas();
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (const pgmo_arena& arena : empty) give_back(arena);
  return !empty.empty();
}

// Return whether the current arenas have no live block. Requires the lock.
bool Engine::is_idle() noexcept {
  bool idle = shared_.late.empty();
  if (idle && replayer_ != nullptr) {
    replayer_->for_each_living([&](SlotIndex, Offset, Bytes) { idle = false; });
  }
  return idle;
}

// Retire the current arenas. Return the empty arenas, which the caller gives back after it has
// released the lock. Requires the lock. Throws std::bad_alloc.
std::vector<pgmo_arena> Engine::retire_arenas() {
  lending_.arenas_retired();
  if (replayer_ != nullptr) replayer_->make_living_late();
  std::vector<pgmo_arena> empty = arenas_.retire(shared_.late);
  if (replayer_ != nullptr) replayer_->forget_living();
  note_streams_without_arena();
  return empty;
}

void Engine::note_streams_without_arena() noexcept {
  shared_.without_arena = arenas_.without();
}

void Engine::start_serving() {
  unsettle_ranges();
  {
    const Guard guard(lock_);
    if (replayer_ == nullptr || !arenas_.attached()) {
      throw std::logic_error("serving needs a plan and an arena");
    }
    requests_so_far_ = 0;
    set(PGMO_SERVING, true);
  }
  share_pages();
  arrange_pages();
}

void Engine::pause() {
  const Guard guard(lock_);
  if (!mode_when_paused_) mode_when_paused_ = mode_.exchange(0, std::memory_order_relaxed);
}

void Engine::resume() {
  bool lent = false;
  {
    const Guard guard(lock_);
    lent = std::exchange(lent_in_pause_, false);
  }
  if (lent) trim_malloc();
  const Guard guard(lock_);
  if (lent) lending_.end_pause();
  if (mode_when_paused_) mode_.store(*mode_when_paused_, std::memory_order_relaxed);
  mode_when_paused_.reset();
}

void Engine::delegate_thread(ThreadId thread, bool on) {
  const Guard guard(lock_);
  threads_.delegate(thread, on);
}

std::vector<Threads::Activity> Engine::threads() {
  const Guard guard(lock_);
  const auto active = threads_.active();
  return {active.begin(), active.end()};
}

void Engine::end_iteration() {
  share_pages();
  arrange_pages();
  settle_ranges();
  const pages::PageStatistics of_pages = pages_statistics();
  bool lent = false;
  {
    const Guard guard(lock_);
    if (blocks_.recorder.active()) blocks_.recorder.step();
    lent = lending_.has_returned();
    close_iteration();
    passing_.ends(reading(of_pages), previous_);
    PGMO_ASSERT_EXPENSIVE(consistent());
  }
  if (lent) trim_malloc();  // malloc keeps the memory of freed blocks without slots
}

// Requires the lock.
void Engine::close_iteration() {
  note_level();
  threads_.end_iteration();
  lending_.end_iteration();
  requests_so_far_ = 0;
  steps_done_ = 0;
  if (replayer_ == nullptr) return;
  replayer_->end_iteration();
  ++shared_.counters.iterations;
  if (plans_.size() > 1) {
    successors_[previous_] = selected_;
    previous_ = selected_;
    if (successors_[selected_] != selected_) switch_to(successors_[selected_]);
  }
}

// Note the live bytes at the end of an iteration. With pages, the meter of the page space counts
// all blocks in every mode. Without pages, the sum of the peaks of slots and of framework blocks is
// an upper bound of the peak. Requires the lock.
void Engine::note_level() noexcept {
  if (pages::Space* const space = space_.load()) {
    const pages::Meter& meter = space->meter();
    levels_.note(meter.living(), meter.peak().bytes);
  } else {
    levels_.note(slots_.live + blocks_.foreign.live, slots_.peak + blocks_.foreign.peak);
  }
}

LiveLevels Engine::live_levels() {
  const Guard guard(lock_);
  return levels_;
}

void Engine::forget_levels() {
  const Guard guard(lock_);
  levels_ = {};
}

void Engine::let_pass(Passing::Terms terms) {
  const Guard guard(lock_);
  passing_.set(terms);
}

void Engine::let_steps_pass(ThreadId thread) noexcept {
  const Guard guard(lock_);
  passing_thread_ = thread;
}

void Engine::set_steps(std::uint32_t steps) noexcept {
  const Guard guard(lock_);
  steps_ = steps;
  steps_done_ = 0;
}

bool Engine::pass_step() {
  const ThreadId thread = Threads::own();
  {
    const Guard guard(lock_);
    if (passing_thread_ == 0 || passing_thread_ != thread) return false;
  }
  return pass_iteration();
}

bool Engine::pass_iteration() {
  {
    const Guard guard(lock_);
    if (steps_done_ + 1 < steps_) {
      ++steps_done_;
      return true;
    }
    if (!passing_.any()) return false;
  }
  if (pages::Space* const space = space_.load(); space != nullptr && space->has_to_give_back()) {
    return false;
  }
  const pages::PageStatistics of_pages = pages_statistics();
  const Guard guard(lock_);
  if (!may_pass()) return false;
  Statistics then = reading(of_pages);
  if (replayer_ != nullptr) {
    const Replayer::Ending ending = replayer_->ending();
    then.counters.skipped += ending.skipped;
    then.counters.late += ending.late;
    then.late_now += ending.late;
    ++then.counters.iterations;
  }
  if (!passing_.passes(then, selected_)) return false;
  // Discard the recorded events: the session does not read them.
  if (blocks_.recorder.active()) blocks_.recorder.start();
  close_iteration();
  return true;
}

// Return whether the iteration may pass: the counters describe it fully, and its end needs no work
// on arenas or ranges. Requires the lock.
bool Engine::may_pass() const noexcept {
  if (replayer_ == nullptr) return passing_.anything();
  if (replayer_->has_grown()) return false;
  if (!arenas_.attached()) return false;
  bool settled = true;
  if (has(PGMO_SERVING)) {
    arenas_.for_each([&](const Arenas::Segment& segment) {
      settled = settled && (segment.range == nullptr || segment.range->fully_mapped() ||
                            segment.range->shares_pages());
    });
  }
  return settled;
}

Statistics Engine::take_passed(std::vector<Passed>& passed) {
  passed.clear();
  passed.reserve(Passing::kMost);
  const Guard guard(lock_);
  return passing_.take(passed);
}

void Engine::reset_peaks() {
  const Guard guard(lock_);
  slots_.peak = slots_.live;
  blocks_.foreign.peak = blocks_.foreign.live;
}

// Calls that were settling ranges continue only in the parent, so reset `settling_`.
void Engine::in_child() noexcept {
  mode_when_paused_.reset();
  mode_.store(0, std::memory_order_relaxed);
  passing_.stop();
  passing_thread_ = 0;
  settling_ = 0;
  threads_.delegate_none();
  for (const pages::Extent& range : returning_)
    (void)arenas_.release_held(shared_.late, range.address);
  returning_.clear();
  Threads::forget_own();
}

}  // namespace pgmo
