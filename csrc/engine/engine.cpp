#include "engine/engine.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/registry.hpp"

namespace pgmo {
namespace {

using Guard = std::lock_guard<Spinlock>;

bool check_requested() {
  const char* value = std::getenv("PGMO_CHECK");
  return value != nullptr && std::strcmp(value, "") != 0 && std::strcmp(value, "0") != 0;
}

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

bool contains(const pgmo_arena& arena, std::uintptr_t address) noexcept {
  return address - address_of(arena.base) < arena.bytes;  // wraps around below the base
}

void check_room(std::uint64_t needed, std::uint64_t bytes) {
  if (needed <= bytes) return;
  throw std::invalid_argument("the plan needs an arena of " + std::to_string(needed) +
                              " bytes, but this one has " + std::to_string(bytes));
}

void give_back(const pgmo_arena& arena) noexcept {
  if (arena.give_back != nullptr) arena.give_back(arena.context);
}

}  // namespace

Engine::Engine() {
  if (check_requested()) check_ = std::make_unique<LiveCheck>();
  register_engine(this);
}

Engine::~Engine() {
  unregister_engine(this);
}

const std::uint32_t* Engine::mode() const noexcept {
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  return reinterpret_cast<const std::uint32_t*>(&mode_);
}

void Engine::set(std::uint32_t bit, bool on) noexcept {
  std::uint32_t mode = mode_when_paused_.value_or(mode_.load(std::memory_order_relaxed));
  mode = on ? mode | bit : mode & ~bit;
  if (mode_when_paused_) {
    mode_when_paused_ = mode;
  } else {
    mode_.store(mode, std::memory_order_relaxed);
  }
}

// --- what adapters call -------------------------------------------------------------------------

void* Engine::allocate(std::size_t bytes, std::uint64_t stream) noexcept {
  if (bytes == 0 || bytes > static_cast<std::size_t>(kLargestRequest)) return nullptr;
  const Guard guard(lock_);
  if (!has(PGMO_SERVING)) return nullptr;
  const std::optional<std::uint32_t> index = stream_index(stream);
  if (!index) {
    counters_.missed(Miss::kUnknown, static_cast<Bytes>(bytes));
    return nullptr;
  }
  Offset offset = kUnplanned;
  try {
    offset = find_slot(make_key(static_cast<Bytes>(bytes), *index));
  } catch (const std::bad_alloc&) {
    return nullptr;  // nothing has changed: see Replayer::serve
  }
  if (offset == kUnplanned) return nullptr;
  const std::uintptr_t address = base_ + static_cast<std::uintptr_t>(offset);
  slots_.add(static_cast<Bytes>(bytes));
  if (has(PGMO_RECORDING)) [[unlikely]] {
    track(address, static_cast<Bytes>(bytes), stream, /*foreign=*/false);
  }
  if (check_) [[unlikely]]
    check_->allocated(address, bytes, "slot");
  return reinterpret_cast<void*>(address);
}

bool Engine::adopt(void* pointer, std::size_t bytes, std::uint64_t stream) noexcept {
  if (pointer == nullptr || bytes == 0) return false;
  const Guard guard(lock_);
  if (!has(PGMO_RECORDING | PGMO_SERVING)) return false;
  const Bytes size = static_cast<Bytes>(bytes);
  if (!track(address_of(pointer), size, stream, /*foreign=*/true)) return false;
  fallback_.add(size);
  fallback_bytes_ += bytes;
  if (check_) [[unlikely]]
    check_->allocated(address_of(pointer), bytes, "framework");
  return true;
}

bool Engine::release(void* pointer) noexcept {
  const std::uintptr_t address = address_of(pointer);
  pgmo_arena empty{};
  bool ours = false;
  {
    const Guard guard(lock_);
    const bool recorded = recorder_.active();
    if (recorded) [[unlikely]]
      record_free(address);
    if (check_) [[unlikely]]
      check_->freed(address);
    ours = release_slot(address, empty);
    if (!ours || recorded) {
      if (const Tracked* block = tracked_.find(address)) {
        if (block->foreign) fallback_.remove(block->bytes);
        tracked_.erase(address);
      }
    }
  }
  give_back(empty);
  return ours;
}

bool Engine::owns(const void* pointer) noexcept {
  const std::uintptr_t address = address_of(pointer);
  const Guard guard(lock_);
  return contains(arena_, address) ||
         std::any_of(retired_.begin(), retired_.end(),
                     [&](const RetiredArena& retired) { return contains(retired.arena, address); });
}

Statistics Engine::statistics() noexcept {
  const Guard guard(lock_);
  Bytes arena_bytes = static_cast<Bytes>(arena_.bytes);
  for (const RetiredArena& retired : retired_) {
    arena_bytes += static_cast<Bytes>(retired.arena.bytes);
  }
  return {.counters = counters_,
          .slots = slots_,
          .fallback = fallback_,
          .fallback_bytes = fallback_bytes_,
          .arena_bytes = arena_bytes,
          .arenas = retired_.size() + (base_ != 0),
          .late_now = late_.size()};
}

// --- parts of them ------------------------------------------------------------------------------

std::optional<std::uint32_t> Engine::stream_index(std::uint64_t stream) noexcept {
  for (std::size_t at = 0; at < streams_.size(); ++at) {
    if (streams_[at] == stream) return static_cast<std::uint32_t>(at);
  }
  return std::nullopt;
}

Offset Engine::find_slot(RequestKey key) {
  if (requests_so_far_ < kPrefix && plans_.size() > 1) [[unlikely]]
    choose_plan(key);
  return replayer_->serve(key);
}

// Among several plans, an iteration's first requests tell which one it follows. The predicted one
// serves until a request contradicts it.
void Engine::choose_plan(RequestKey key) {
  prefix_[requests_so_far_++] = key;
  if (replayer_->expects(key)) return;
  const std::span<const RequestKey> seen(prefix_.data(), requests_so_far_);
  int best = -1;
  PlanId choice = selected_;
  for (PlanId plan = 0; plan < plans_.size(); ++plan) {
    const int score = plan == selected_ ? -1 : plans_[plan]->prefix_score(seen);
    if (score > best) {
      best = score;
      choice = plan;
    }
  }
  if (choice == selected_) return;
  switch_to(choice);
  replayer_->begin_at(requests_so_far_ - 1);
  ++counters_.takeovers;
}

void Engine::switch_to(PlanId plan) {
  if (replayer_ != nullptr) replayer_->retire_living();
  selected_ = plan;
  replayer_ = plans_[plan].get();
  replayer_->rest();
}

bool Engine::track(std::uintptr_t address, Bytes bytes, std::uint64_t stream,
                   bool foreign) noexcept {
  Tracked block{.bytes = bytes, .foreign = foreign};
  if (has(PGMO_RECORDING)) {
    block.block = recorder_.request(bytes, stream);
    block.epoch = recorder_.epoch();
  }
  try {
    tracked_.insert(address, block);
    return true;
  } catch (const std::bad_alloc&) {
    return false;  // the record will show a block that is never freed, which is not planned
  }
}

void Engine::record_free(std::uintptr_t address) noexcept {
  Tracked* block = tracked_.find(address);
  if (block == nullptr) return;
  if (block->epoch == recorder_.epoch() && block->block != Recorder::kNoBlock) {
    recorder_.free(block->block);
  }
  block->block = Recorder::kNoBlock;
}

bool Engine::release_slot(std::uintptr_t address, pgmo_arena& empty) noexcept {
  if (base_ != 0 && contains(arena_, address)) [[likely]] {
    const Offset offset = static_cast<Offset>(address - base_);
    Bytes bytes = replayer_ != nullptr ? replayer_->release(offset) : 0;
    if (bytes == 0) bytes = late_.erase(offset);
    slots_.remove(bytes);
    return true;
  }
  for (auto retired = retired_.begin(); retired != retired_.end(); ++retired) {
    if (!contains(retired->arena, address)) continue;
    slots_.remove(
        retired->blocks.erase(static_cast<Offset>(address - address_of(retired->arena.base))));
    if (retired->blocks.empty()) {
      empty = retired->arena;
      retired_.erase(retired);
    }
    return true;
  }
  return false;
}

// --- what the session calls ---------------------------------------------------------------------

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
  const Guard guard(lock_);
  const std::vector<Event>& all = recorder_.events();
  return {all.begin() + static_cast<std::ptrdiff_t>(std::min(from, all.size())), all.end()};
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
  const Guard guard(lock_);
  set(PGMO_SERVING, false);
  if (replayer_ != nullptr) replayer_->retire_living();
  replayer_ = nullptr;
  selected_ = previous_ = 0;
  plans_.clear();
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
