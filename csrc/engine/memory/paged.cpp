// Arenas of pages: addresses at which pages are mapped only where slots need them ("ranges").
//
//     allocate    lock: take the slot, read the generation ──▶ unlocked: notify the pages
//     release     lock: free the slot, read the generation ──▶ unlocked: notify the pages
//     pages       another user needs some ──▶ list_living, locked ──▶ count slots from now on
//
// The engine notifies the page space only while the range counts its slots
// (pages/planned/planned_range.hpp). The engine does not hold its lock meanwhile. If `list_living`
// runs between the two steps, it sees the slot as already taken or freed, and changes the range's
// generation. So the late notification has no effect.

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "engine/engine.hpp"
#include "engine/memory/arena.hpp"

namespace pgmo {

void Engine::use_pages(pages::Space& space) {
  const Guard guard(lock_);
  space_.store(&space);
}

pgmo_arena Engine::reserve_arena(pages::Space& space, Bytes bytes, pages::Stream stream) {
  struct Reserved {
    Engine* engine;
    pages::PlannedRange* range;
  };
  auto reserved = std::make_unique<Reserved>(Reserved{this, nullptr});
  {
    const Guard guard(lock_);
    ranges_.reserve(ranges_.size() + 1);
    closing_.reserve(ranges_.size() + closing_.size() + 1);
    space_.store(&space);
  }
  pages::PlannedRange* const range = space.reserve_range(bytes, stream, *this);
  if (range == nullptr) return {};
  reserved->range = range;
  {
    const Guard guard(lock_);
    ranges_.push_back(range);
  }
  return {.base = reinterpret_cast<void*>(range->where().address),
          .bytes = static_cast<std::size_t>(bytes),
          .give_back =
              [](void* context) {
                const std::unique_ptr<Reserved> gone(static_cast<Reserved*>(context));
                gone->engine->close_range(*gone->range);
              },
          .context = reserved.release()};
}

// Give a range back to the page space. If another call is settling ranges or sharing pages,
// `end_settling` gives the range back later.
void Engine::close_range(pages::PlannedRange& range) noexcept {
  {
    const Guard guard(lock_);
    std::erase(ranges_, &range);
    if (settling_ > 0) {
      closing_.push_back(&range);  // capacity was reserved
      return;
    }
  }
  (void)space_.load()->close_range(range);
}

void Engine::end_settling() noexcept {
  {
    const Guard guard(lock_);
    if (--settling_ > 0) return;
  }
  for (;;) {
    pages::PlannedRange* range = nullptr;
    {
      const Guard guard(lock_);
      if (settling_ > 0 || closing_.empty()) return;
      range = closing_.back();
      closing_.pop_back();
    }
    (void)space_.load()->close_range(*range);
  }
}

pages::PlannedRange* Engine::range_at(const void* base) const noexcept {
  const auto found = std::find_if(ranges_.begin(), ranges_.end(), [&](const auto* range) {
    return range->where().address == address_of(base);
  });
  return found == ranges_.end() ? nullptr : *found;
}

// Get the missing pages of a slot that was just taken. On failure, free the slot and return false.
bool Engine::occupy(std::uintptr_t address, Bytes bytes, pages::PlannedRange& range,
                    std::uint64_t generation) noexcept {
  if (space_.load()->occupy(range, {address, bytes}, generation)) return true;
  Arenas::Released unused;
  {
    const Guard guard(lock_);
    blocks_.refused(address);
    (void)release_slot(address, unused);
    shared_.counters.retract(bytes);
  }
  // The page space did not count the slot when it refused its pages. But if the range's generation
  // has changed since, `list_living` has listed the slot as live. The slot must then be vacated.
  if (unused.generation == generation) unused.range = nullptr;
  vacate(address, unused);
  return false;
}

// Notify the page space that a slot was freed, and give an empty arena back. Call without the lock.
void Engine::vacate(std::uintptr_t address, const Arenas::Released& released) noexcept {
  if (released.range != nullptr && !pages::PlannedRange::fully_mapped(released.generation)) {
    space_.load()->vacate(*released.range, {address, released.bytes}, released.generation);
  }
  give_back(released.empty);
}

void Engine::list_living(pages::PlannedRange& range, std::vector<pages::Extent>& living) {
  const Guard guard(lock_);
  const pages::Extent where = range.where();
  const auto add = [&](std::uintptr_t address, Bytes bytes) {
    if (address - where.address < static_cast<std::uintptr_t>(where.bytes)) {
      living.push_back({address, bytes});
    }
  };
  visit_slots(add);
  range.count_from_now_on();
}

// Settle ranges whose pages are mapped (Space::settle). A settled range does not count its slots
// until other requests need its pages, a plan is added, or serving starts again.
void Engine::settle_ranges() noexcept {
  pages::Space* const space = space_.load();
  if (space == nullptr) return;
  struct Settling {
    pages::PlannedRange* range;
    std::vector<pages::Extent> covered;
  };
  std::vector<Settling> all;
  try {
    const Guard guard(lock_);
    if (!has(PGMO_SERVING)) return;
    arenas_.for_each([&](const Arenas::Segment& segment) {
      if (segment.range == nullptr || segment.range->fully_mapped()) return;
      if (segment.range->shares_pages()) return;
      all.push_back({segment.range, covered_in(segment)});
    });
    ++settling_;
  } catch (const std::bad_alloc&) {
    return;
  }
  for (Settling& one : all) (void)space->settle(*one.range, std::move(one.covered));
  end_settling();
}

bool Engine::settled() noexcept {
  const Guard guard(lock_);
  return std::all_of(ranges_.begin(), ranges_.end(), [](const auto* range) {
    return range->fully_mapped() || range->shares_pages();
  });
}

// Return the extents of an arena that slots of any plan or late blocks cover, sorted by address.
// Requires the lock.
std::vector<pages::Extent> Engine::covered_in(const Arenas::Segment& segment) const {
  std::vector<pages::Extent> covered;
  const Offset end = segment.begin + static_cast<Offset>(segment.arena.bytes);
  for (const auto& plan : plans_) {
    for (const Range& slots : plan->plan().covered()) {
      const Offset from = std::max(slots.begin, segment.begin);
      const Offset to = std::min(slots.end, end);
      if (from >= to) continue;
      covered.push_back(
          {address_of(segment.arena.base) + static_cast<std::uintptr_t>(from - segment.begin),
           to - from});
    }
  }
  // Include late blocks: while the range is settled, their frees do not notify the space either.
  arenas_.for_each_late(shared_.late, [&](std::uintptr_t address, Bytes bytes) {
    if (contains(segment.arena, address)) covered.push_back({address, bytes});
  });
  std::sort(covered.begin(), covered.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  return covered;
}

bool Engine::counts_all_slots() const noexcept {
  return std::ranges::none_of(ranges_, [](const auto* range) { return range->fully_mapped(); });
}

// Make all ranges count their slots again, because they were settled for the slots of the previous
// plans. The caller must not hold the lock, because the page space calls `list_living`. No range is
// settled until the caller returns, because the session makes one call at a time. Throws
// std::bad_alloc.
void Engine::unsettle_ranges() {
  pages::Space* const space = space_.load();
  if (space != nullptr && !space->unsettle(*this)) throw std::bad_alloc();
}

}  // namespace pgmo
