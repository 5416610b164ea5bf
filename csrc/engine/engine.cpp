#include "engine/engine.hpp"

#include <new>

#include "checks.hpp"
#include "engine/memory/arena.hpp"

namespace pgmo {

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
  const Bytes size = static_cast<Bytes>(bytes);
  Placed placed;
  bool exceeds_need = false;
  const ThreadId thread = Threads::own();  // a system call on the thread's first request
  {
    const Guard guard(lock_);
    if (!has(PGMO_SERVING)) return nullptr;
    if (threads_.is_delegated(thread)) [[unlikely]]
      return nullptr;
    threads_.note(thread);
    const std::optional<std::uint32_t> index = stream_index(stream);
    if (!index) {
      shared_.counters.missed(Miss::kUnknown, size);
      return nullptr;
    }
    try {
      const RequestKey key = make_key(size, *index);
      if (requests_so_far_ < heuristics_.look_ahead && plans_.size() > 1) [[unlikely]]
        choose_plan(key);
      const Offset offset = replayer_->serve(key);
      if (offset != kUnplanned) [[likely]] {
        placed = place(key, offset);
        exceeds_need = lending_.slots_exceed_need(blocks_.foreign.dense());
      }
    } catch (const std::bad_alloc&) {
      return nullptr;  // no slot is taken: see Replayer::serve
    }
  }
  if (placed.range != nullptr) {
    if (!occupy(placed.address, size, *placed.range, placed.generation)) {
      return nullptr;
    }
    const Guard guard(lock_);  // counted only now: a slot that gets no page is a miss
    count_paged_slot(size);
    if (has(PGMO_RECORDING)) blocks_.served(placed.address, size, stream);
  }
  if (exceeds_need) [[unlikely]]
    lend();
  return reinterpret_cast<void*>(placed.address);
}

bool Engine::adopt(void* pointer, std::size_t bytes, std::uint64_t stream, bool in_gap) noexcept {
  if (pointer == nullptr || bytes == 0) return false;
  const ThreadId thread = Threads::own();
  bool adopted = false;
  bool lends = false;
  {
    const Guard guard(lock_);
    if (!has(PGMO_RECORDING | PGMO_SERVING)) {
      lends = mode_when_paused_ &&
              lending_.should_lend_in_pause(static_cast<Bytes>(bytes), slots_.dense());
      lent_in_pause_ = lent_in_pause_ || lends;
    } else if (!threads_.is_delegated(thread)) {
      if (!has(PGMO_SERVING)) threads_.note(thread);  // otherwise `allocate` has noted the thread
      adopted = blocks_.adopt(address_of(pointer), static_cast<Bytes>(bytes), stream, in_gap);
      lends = adopted && lending_.should_lend(slots_.dense(), blocks_.foreign.dense()) &&
              has(PGMO_SERVING);
    }
  }
  if (lends) [[unlikely]]
    lend();
  return adopted;
}

bool Engine::release(void* pointer) noexcept {
  const std::uintptr_t address = address_of(pointer);
  Arenas::Released released;
  bool ours = false;
  Bytes unmeasured = 0;  // size of the freed block, if its touched pages are to be measured
  {
    const Guard guard(lock_);
    blocks_.freeing(address);
    if (lending_.on() && mode_.load(std::memory_order_relaxed) == PGMO_RECORDING) [[unlikely]]
      unmeasured = blocks_.foreign_at(address);
    ours = release_slot(address, released);
    if (released.range != nullptr) space_.load()->meter().freed(released.bytes);
    blocks_.freed(address, ours);
  }
  vacate(address, released);
  if (unmeasured != 0 && unmeasured >= heuristics_.small_block) [[unlikely]]
    measure_touched(address, unmeasured);
  return ours;
}

bool Engine::owns(const void* pointer) noexcept {
  const std::uintptr_t address = address_of(pointer);
  const Guard guard(lock_);
  return arenas_.owns(address);
}

bool Engine::shared(void* pointer, std::uint64_t stream) noexcept {
  const std::uintptr_t address = address_of(pointer);
  const Guard guard(lock_);
  const Arenas::Segment* const own = arenas_.at(address);
  const bool ours = arenas_.owns(address);
  const bool elsewhere = own != nullptr && !own->spilled()
                             ? streams_[own->stream_index] != stream
                             : blocks_.is_of_other_stream(address, stream, ours);
  if (!elsewhere) return false;
  blocks_.shared(address, ours);
  return ours;
}

void Engine::ordered(int what, std::uint64_t stream, std::uint64_t event) noexcept {
  if (what < PGMO_RECORDED || what > PGMO_ORDER_LOST) return;
  static_assert(static_cast<int>(Event::kRecord) == PGMO_RECORDED);
  static_assert(static_cast<int>(Event::kOrderLost) == PGMO_ORDER_LOST);
  const Guard guard(lock_);
  if (!has(PGMO_RECORDING)) return;
  blocks_.recorder.ordered(static_cast<Event::Kind>(what), stream, event);
}

Bytes Engine::size_of(const void* pointer) noexcept {
  const std::uintptr_t address = address_of(pointer);
  const Guard guard(lock_);
  Bytes found = 0;
  if (const std::optional<Offset> offset = arenas_.offset_at(address);
      offset && replayer_ != nullptr) {
    found = replayer_->size_at(*offset);
  }
  const auto look = [&](std::uintptr_t at, Bytes bytes) {
    if (at == address) found = bytes;
  };
  if (found == 0) arenas_.for_each_late(shared_.late, look);
  return found;
}

Statistics Engine::statistics() noexcept {
  const pages::PageStatistics of_pages = pages_statistics();
  const Guard guard(lock_);
  return reading(of_pages);
}

void Engine::for_each_slot(const std::function<void(std::uintptr_t, Bytes)>& visit) {
  const Guard guard(lock_);
  visit_slots(visit);
}

std::vector<Living> Engine::living() {
  std::vector<Living> all;
  const auto adds = [&](Living::Kind kind) {
    return [&all, kind](std::uintptr_t address, Bytes bytes) {
      all.push_back({.address = address, .bytes = bytes, .kind = kind});
    };
  };
  const Guard guard(lock_);
  // The block table contains all tracked framework blocks, but not all slots.
  blocks_.for_each_foreign(adds(Living::kForeign));
  for (const auto kind : {Living::kSlot, Living::kLate}) visit_slots(adds(kind), kind);
  return all;
}

// Requires that the caller does not hold the lock.
pages::PageStatistics Engine::pages_statistics() noexcept {
  pages::Space* const space = space_.load();
  return space != nullptr ? space->statistics() : pages::PageStatistics{};
}

// Requires the lock.
Statistics Engine::reading(const pages::PageStatistics& of_pages) const noexcept {
  return {.counters = shared_.counters,
          .slots = slots_,
          .fallback = blocks_.foreign,
          .arena_bytes = arenas_.bytes(),
          .planned_pages = planned_pages_,
          .pages = of_pages,
          .paged_slots = paged_slots_,
          .paged_slot_bytes = paged_slot_bytes_,
          .recorded_requests = blocks_.recorder.requests(),
          .recorded_bytes = blocks_.recorder.bytes(),
          .arenas = arenas_.count(),
          .late_now = shared_.late.size()};
}

// --- helpers ------------------------------------------------------------------------------------

std::optional<std::uint32_t> Engine::stream_index(std::uint64_t stream) noexcept {
  for (std::size_t at = 0; at < streams_.size(); ++at) {
    if (streams_[at] == stream) return static_cast<std::uint32_t>(at);
  }
  return std::nullopt;
}

// Requires the lock.
Engine::Placed Engine::place(RequestKey key, Offset offset) {
  const Bytes size = key_bytes(key);
  Placed placed{.address = arenas_.address(key_stream(key), offset)};
  PGMO_ASSERT_INTERNAL(arenas_.offset_at(placed.address) == offset);
  slots_.add(size);
  if (size < slots_.sparse_from) [[likely]]
    lending_.served(offset + size, size, slots_.dense(), blocks_.foreign.dense());
  if (space_.load(std::memory_order_relaxed) != nullptr) {
    const Arenas::Segment* const segment = arenas_.at(placed.address);
    if (segment->range != nullptr) {
      placed.generation = segment->range->generation();
      if (pages::PlannedRange::fully_mapped(placed.generation)) [[likely]] {
        count_paged_slot(size);
      } else {
        placed.range = segment->range;
      }
    }
  }
  if (has(PGMO_RECORDING) && placed.range == nullptr) [[unlikely]] {
    blocks_.served(placed.address, size, streams_[key_stream(key)]);
  }
  blocks_.chosen(placed.address, size);
  return placed;
}

// Free the slot at an address. Return false if no arena contains the address. Requires the lock.
bool Engine::release_slot(std::uintptr_t address, Arenas::Released& released) noexcept {
  if (const Arenas::Segment* const segment = arenas_.at(address)) [[likely]] {
    const Offset offset = Arenas::offset_in(*segment, address);
    released.bytes = replayer_ != nullptr ? replayer_->release(offset) : 0;
    if (released.bytes == 0) released.bytes = shared_.late.erase(offset);
    released.range = segment->range;
  } else if (const auto retired = arenas_.release_retired(address)) {
    released = *retired;
  } else {
    return false;
  }
  slots_.remove(released.bytes);
  if (released.bytes == 0) released.range = nullptr;
  if (released.range != nullptr) released.generation = released.range->generation();
  return true;
}

}  // namespace pgmo
