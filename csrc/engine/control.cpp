// What the session calls: recording, plans, arenas, modes. Allocation itself is in engine.cpp.

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "engine/arena.hpp"
#include "engine/engine.hpp"

namespace pgmo {

using Guard = std::lock_guard<Spinlock>;

namespace {

constexpr std::size_t kSpareEvents = 1024;

}  // namespace

void Engine::start_recording() {
  const Guard guard(lock_);
  recorder_.start();
  set(PGMO_RECORDING, true);
}

void Engine::stop_recording() {
  const Guard guard(lock_);
  set(PGMO_RECORDING, false);
  recorder_.stop();
}

std::vector<Event> Engine::events(std::size_t from) {
  // Memory is found without the lock, so that only a copy is made with it. When other threads have
  // recorded more meanwhile than there is room for, the next round finds room for that, too.
  std::vector<Event> copy;
  for (std::size_t room = 0;; copy.reserve(room)) {
    const Guard guard(lock_);
    const std::vector<Event>& all = recorder_.events();
    const std::size_t first = std::min(from, all.size());
    if (all.size() - first <= copy.capacity()) {
      copy.assign(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
      return copy;
    }
    room = all.size() - first + kSpareEvents;
  }
}

void Engine::forget_recording() {
  std::vector<Event> events;  // destroyed after the guard
  const Guard guard(lock_);
  events = recorder_.take();
}

bool Engine::recording_truncated() {
  const Guard guard(lock_);
  return recorder_.truncated();
}

Engine::PlanId Engine::add_plan(std::vector<PlannedRequest> requests,
                                std::span<const std::uint64_t> streams, Bytes arena_bytes,
                                Bytes alignment) {
  // Only the first and the last step need the lock; the long one in between must not hold it.
  const std::vector<std::uint32_t> indices = indices_of(streams);
  for (PlannedRequest& request : requests) {
    if (request.stream_index >= indices.size()) throw std::invalid_argument("unknown stream");
    request.stream_index = indices[request.stream_index];
  }
  auto replayer =
      std::make_unique<Replayer>(ReplayPlan(requests, arena_bytes, alignment), late_, counters_);
  const Guard guard(lock_);
  check_room(static_cast<std::uint64_t>(arena_bytes), arena_.bytes);
  const PlanId plan = static_cast<PlanId>(plans_.size());
  plans_.reserve(plan + 1);
  successors_.reserve(plan + 1);
  plans_.push_back(std::move(replayer));
  successors_.push_back(plan);
  if (replayer_ == nullptr) switch_to(plan);
  return plan;
}

std::vector<std::uint32_t> Engine::indices_of(std::span<const std::uint64_t> streams) {
  const Guard guard(lock_);
  std::vector<std::uint32_t> indices;
  for (const std::uint64_t stream : streams) {
    const auto known = std::find(streams_.begin(), streams_.end(), stream);
    indices.push_back(static_cast<std::uint32_t>(known - streams_.begin()));
    if (known == streams_.end()) streams_.push_back(stream);
  }
  return indices;
}

void Engine::select_plan(PlanId plan) {
  const Guard guard(lock_);
  if (plan >= plans_.size()) throw std::invalid_argument("no such plan");
  if (plan != selected_) switch_to(plan);
}

Engine::PlanId Engine::selected_plan() {
  const Guard guard(lock_);
  return selected_;
}

void Engine::remove_plans() {
  std::vector<std::unique_ptr<Replayer>> plans;  // destroyed after the guard
  const Guard guard(lock_);
  set(PGMO_SERVING, false);
  if (replayer_ != nullptr) replayer_->retire_living();
  replayer_ = nullptr;
  selected_ = previous_ = 0;
  plans.swap(plans_);
  successors_.clear();
}

std::vector<Grown> Engine::take_grown() {
  const Guard guard(lock_);
  return replayer_ != nullptr ? replayer_->take_grown() : std::vector<Grown>{};
}

void Engine::attach_arena(const pgmo_arena& arena) {
  if (arena.base == nullptr || arena.bytes == 0 || arena.bytes > ~address_of(arena.base)) {
    throw std::invalid_argument("an arena of " + std::to_string(arena.bytes) +
                                " bytes is not a range of memory");
  }
  pgmo_arena empty{};
  {
    const Guard guard(lock_);
    for (const auto& one : plans_) {
      check_room(static_cast<std::uint64_t>(one->plan().arena_bytes()), arena.bytes);
    }
    empty = retire_arena();
    arena_ = arena;
    base_ = address_of(arena.base);
  }
  give_back(empty);
}

void Engine::detach_arena() {
  pgmo_arena empty{};
  {
    const Guard guard(lock_);
    set(PGMO_SERVING, false);
    empty = retire_arena();
  }
  give_back(empty);
}

// The arena to give back at once, if it is empty.
pgmo_arena Engine::retire_arena() {
  retired_.reserve(retired_.size() + 1);  // so that nothing below can fail halfway
  if (replayer_ != nullptr) replayer_->retire_living();
  const pgmo_arena old = std::exchange(arena_, {});
  base_ = 0;
  if (late_.empty()) return old;
  retired_.push_back({old, std::exchange(late_, {})});
  return {};
}

void Engine::start_serving() {
  const Guard guard(lock_);
  if (replayer_ == nullptr || base_ == 0) {
    throw std::logic_error("serving needs a plan and an arena");
  }
  requests_so_far_ = 0;
  set(PGMO_SERVING, true);
}

void Engine::stop_serving() {
  const Guard guard(lock_);
  set(PGMO_SERVING, false);
}

void Engine::pause() {
  const Guard guard(lock_);
  if (!mode_when_paused_) mode_when_paused_ = mode_.exchange(0, std::memory_order_relaxed);
}

void Engine::resume() {
  const Guard guard(lock_);
  if (mode_when_paused_) mode_.store(*mode_when_paused_, std::memory_order_relaxed);
  mode_when_paused_.reset();
}

void Engine::end_iteration() {
  const Guard guard(lock_);
  if (recorder_.active()) recorder_.step();
  requests_so_far_ = 0;
  if (replayer_ == nullptr) return;
  replayer_->end_iteration();
  ++counters_.iterations;
  if (plans_.size() > 1) {
    successors_[previous_] = selected_;
    previous_ = selected_;
    if (successors_[selected_] != selected_) switch_to(successors_[selected_]);
  }
}

void Engine::reset_peaks() {
  const Guard guard(lock_);
  slots_.peak = slots_.live;
  fallback_.peak = fallback_.live;
}

void Engine::after_fork(bool child) noexcept {
  if (child) {
    mode_when_paused_.reset();
    mode_.store(0, std::memory_order_relaxed);
  }
  lock_.unlock();
}

}  // namespace pgmo
