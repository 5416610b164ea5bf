// Which blocks become guests of the arena, and where they go.

#include "engine/memory/guests.hpp"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/engine.hpp"

namespace pgmo {

using Guard = std::lock_guard<Spinlock>;

namespace {

// Share of the arenas that blocks without a slot may take of the framework's memory instead.
constexpr Bytes kStrayShare = 256;

// Share of the arenas that a block has to exceed to be worth a gap: a loss that lives on would hold
// an arena that is about to be exchanged.
constexpr Bytes kTinyShare = Bytes{1} << 20;

}  // namespace

void Engine::host_guests(Bytes alignment) {
  if (alignment < 0 || alignment > kLargestRequest) {
    throw std::invalid_argument("the alignment of guests is out of range");
  }
  const Guard guard(lock_);
  guests_.host(alignment);
}

// A place in the arena for a request that has just been refused, or kUnplanned. Throws
// std::bad_alloc before it has changed anything.
Offset Engine::place_guest(std::uint32_t stream_index, Bytes bytes) {
  // What the plan itself leaves out lives on, and would be in the way of slots for good.
  if (replayer_->refusal() == Miss::kPersistent) return kUnplanned;
  if (bytes <= arenas_.bytes() / kTinyShare) return kUnplanned;
  if (stray_ + bytes <= arenas_.bytes() / kStrayShare) return kUnplanned;
  const Arenas::Segment* arena = arenas_.of(stream_index);
  if (arena == nullptr) return kUnplanned;
  if (replayer_->between_iterations() && 2 * stray_ > stray_so_far_) {
    ++here_.counters.declined;
    return kUnplanned;
  }
  if (!guests_.keeping()) keep_gaps();
  const Offset offset = guests_.find(arena->begin, bytes, replayer_->better_not(bytes));
  if (offset == kUnplanned) return kUnplanned;
  here_.late.insert(offset, bytes);
  guests_.took(offset, bytes);
  ++here_.counters.guests;
  here_.counters.guest_bytes += static_cast<std::uint64_t>(bytes);
  return offset;
}

void Engine::keep_gaps() {
  std::vector<Gaps::Range> living;
  const auto add = [&](Offset offset, Bytes bytes) { living.push_back({offset, offset + bytes}); };
  replayer_->for_each_living([&](SlotIndex, Offset offset, Bytes bytes) { add(offset, bytes); });
  here_.late.for_each(add);
  std::sort(living.begin(), living.end(),
            [](const Gaps::Range& a, const Gaps::Range& b) { return a.begin < b.begin; });
  std::vector<Gaps> gaps;
  arenas_.for_each([&](const Arenas::Segment& arena) {
    const Offset end = arena.begin + static_cast<Bytes>(arena.arena.bytes);
    gaps.emplace_back(Gaps::Range{arena.begin, end}, living, guests_.alignment());
  });
  guests_.keep(std::move(gaps), living.size());
}

}  // namespace pgmo
