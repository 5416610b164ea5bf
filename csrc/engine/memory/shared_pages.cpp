// Computes which pages arenas can share (sharing.hpp), and passes the result to the page space.

#include <algorithm>
#include <new>
#include <optional>
#include <vector>

#include "engine/engine.hpp"
#include "engine/memory/arena.hpp"
#include "engine/memory/sharing.hpp"

namespace pgmo {

// Share pages for the current plans and arenas. Returns at once if neither plans nor arenas have
// changed since the last call.
void Engine::share_pages() noexcept {
  pages::Space* const space = space_.load();
  if (space == nullptr) return;
  bool begun = false;
  try {
    std::vector<pages::PlannedRange*> ranges;
    PlannedUses uses;
    std::uint64_t shared_for = 0;
    {
      const Guard guard(lock_);
      if (!has(PGMO_SERVING) || shared_for_ == plans_changed_) return;
      // Another call in progress may share pages for older plans, and finish last. So leave the
      // current plans to the next call.
      if (settling_ > 0) return;
      shared_for = plans_changed_;
      uses = uses_of_pages(*space, ranges);
      ++settling_;
      begun = true;
    }
    const auto arenas = static_cast<std::uint32_t>(ranges.size());
    std::vector<pages::SharedPage> shared;
    if (ranges.size() > 1) {
      for (const auto& one : pgmo::share_pages(uses.uses, arenas, uses.plans)) {
        pages::SharedPage& page = shared.emplace_back();
        for (const ArenaPage& part : one) page.push_back({ranges[part.arena], part.page});
      }
    }
    std::optional<std::size_t> more;
    if (uses.in_order()) {
      more = shared.size() - std::min(most_at_once(uses.uses, arenas), shared.size());
    }
    space->share(*this, shared, more);
    const Guard guard(lock_);
    planned_pages_ = static_cast<Bytes>(shared.size()) * space->page();
    shared_for_ = shared_for;
  } catch (const std::bad_alloc&) {
    // The host is out of memory: the page space keeps its sharing plan until the next call.
  }
  if (begun) end_settling();
}

// Let the page space map idle pages where the plans use them; see Space::arrange.
void Engine::arrange_pages() noexcept {
  pages::Space* const space = space_.load();
  if (space == nullptr) return;
  space->arrange(*this);
}

// Return the ticks at which the slots of all plans use each page; nothing if there are fewer than
// two ranges. `ranges` receives the ranges, in the order of PageUse::arena. Requires the lock.
Engine::PlannedUses Engine::uses_of_pages(const pages::Space& space,
                                          std::vector<pages::PlannedRange*>& ranges) const {
  std::vector<const Arenas::Segment*> segments;
  arenas_.for_each([&](const Arenas::Segment& segment) {
    if (segment.range == nullptr) return;
    ranges.push_back(segment.range);
    segments.push_back(&segment);
  });
  PlannedUses all;
  if (segments.size() < 2) return all;
  const Tick* behind = nullptr;
  std::uint32_t number = 0;
  const auto use = [&](std::uint32_t stream, Offset offset, Bytes bytes, Tick from, Tick to) {
    const std::uintptr_t address = arenas_.address(stream, offset);
    for (std::uint32_t at = 0; at < segments.size(); ++at) {
      if (!contains(segments[at]->arena, address)) continue;
      const auto begin = static_cast<Bytes>(address - address_of(segments[at]->arena.base));
      all.uses.push_back({at, static_cast<std::size_t>(begin / space.page()),
                          static_cast<std::size_t>((begin + bytes - 1) / space.page()), from, to,
                          number, behind});
    }
  };
  Tick before = 0;  // sum of the ticks of all plans so far
  for (const auto& replayer : plans_) {
    const ReplayPlan& plan = replayer->plan();
    const Tick length = plan.requests();
    const StreamOrder& order = *orders_[number];
    for (SlotIndex request = 0; request < plan.requests(); ++request) {
      for (SlotIndex slot = request; slot != kNoSlot && plan.planned(slot);
           slot = plan.slot(slot).alternate) {
        const RequestKey key = plan.slot(slot).key;
        const Tick end = plan.end_of(request);
        const bool always = end - request >= length || plan.slot(request).alternate != kNoSlot;
        // The block lives in [from, to) of an iteration that begins `turns` ticks after the
        // iteration that requested the block.
        const auto lives = [&](Tick from, Tick to, Tick turns) {
          if (from >= to) return;
          behind = all.behind(order, request, before - turns, segments);
          use(key_stream(key), plan.offset_of(slot), key_bytes(key), before + from, before + to);
        };
        lives(always ? 0 : request, always ? length : std::min(end, length), 0);
        if (!always) lives(0, end - length, length);
      }
    }
    all.plans.push_back({before, length});
    before += length;
    ++number;
  }
  return all;
}

// Return, for each segment, the tick from which its stream is ordered after the request's block;
// null if the plan has no stream order. `before`: the first tick of the request's iteration.
const Tick* Engine::PlannedUses::behind(const StreamOrder& order, SlotIndex request, Tick before,
                                        std::span<const Arenas::Segment* const> segments) {
  if (order.behind.empty()) return nullptr;
  std::vector<Tick>& row = rows.emplace_back();
  for (const Arenas::Segment* const segment : segments) {
    const auto known = std::find(order.streams.begin(), order.streams.end(), segment->stream_index);
    const auto column = static_cast<std::size_t>(known - order.streams.begin());
    // A stream without a request in the plan is not ordered, and shares no pages with the block.
    const Tick tick = known == order.streams.end()
                          ? kNeverOrdered
                          : order.behind[request * order.streams.size() + column];
    row.push_back(before + std::min(tick, kNeverOrdered));
  }
  return row.data();
}

}  // namespace pgmo
