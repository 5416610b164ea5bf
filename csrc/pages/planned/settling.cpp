// Settled ranges: their slots are not counted, because all of their pages are mapped.
//
//     covered     [  mapped    ][ missing ][   mapped  ]     extents of the slots of all plans
//                        held as a whole; if only a few pages are missing, they are created

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "pages/space.hpp"

namespace pgmo::pages {

bool Space::settle(PlannedRange& range, std::vector<Extent> covered) noexcept {
  const std::lock_guard working(pool_.work());
  if (range.fully_mapped()) return true;
  if (device_.capturing()) return false;
  // The range was surrendered soon after it was settled, more than once, so its slots stay counted
  // for some iterations. Meanwhile, other requests find its idle pages without a surrender.
  if (range.iterations_to_count_ > 0) {
    --range.iterations_to_count_;
    return false;
  }
  std::vector<Places> runs;
  std::size_t held = 0;
  try {
    pool_.clocks().catch_up();
    widen_to_pages(covered);
    // Admit the runs with pages first, so that the search for missing pages does not take theirs.
    std::size_t complete = 0;
    std::vector<Extent> blocked;
    runs = by_completeness(covered, complete);
    if (complete < runs.size() && !may_create(range, runs, complete)) {
      // Move the mapped pages to the end of the idle list, so that they are taken last.
      const std::lock_guard guard(pool_.state());
      for (std::size_t at = 0; at < complete; ++at) {
        if (pool_.admit(runs[at], range.stream(), blocked)) pool_.dismiss(runs[at]);
      }
      return false;
    }
    while (held < runs.size() && hold(range, runs[held], held < complete)) ++held;
  } catch (const std::bad_alloc&) {
    if (held == runs.size()) return false;  // nothing has been admitted yet
  }
  const std::lock_guard guard(pool_.state());
  if (held < runs.size()) {
    const Marks now = pool_.clocks().now(Marks::bit(range.stream()));
    for (std::size_t at = 0; at < held; ++at) pool_.leave(runs[at], now);
    return false;
  }
  for (const Places& places : runs) pool_.hold(places);
  pool_.count_held_range();
  range.settled_ = std::move(covered);
  range.unsettled_ = 0;
  range.settled_at_ = iterations_;
  range.settled();
  return true;
}

// Return the runs of places with pages, followed by the runs of places without pages. `complete`
// receives the number of runs with pages. A page counts for one of its places only.
std::vector<Places> Space::by_completeness(const std::vector<Extent>& extents,
                                           std::size_t& complete) {
  const std::lock_guard guard(pool_.state());
  const std::uint64_t search = ++searches_;
  for (const bool at_home : {true, false}) {
    for (const Extent& extent : extents) {
      const Places places = places_under(extent);
      for (std::size_t at = 0; at < places.size(); ++at) {
        const PagePlace& place = places[at];
        if (!place.has_page() || place.stale() == at_home || place.page->search == search) continue;
        place.page->search = search;
        place.page->found = &place;
      }
    }
  }
  const auto has = [&](const PagePlace& place) {
    return place.page != nullptr && place.page->search == search && place.page->found == &place;
  };
  std::vector<Places> all;
  for (const bool wanted : {true, false}) {
    for (const Extent& extent : extents) {
      const Places places = places_under(extent);
      std::size_t begin = 0;
      for (std::size_t at = 0; at <= places.size(); ++at) {
        if (at < places.size() && has(places[at]) == wanted) continue;
        if (at > begin) all.push_back(places.part(begin, at - begin));
        begin = at + 1;
      }
    }
    if (wanted) complete = all.size();
  }
  return all;
}

// Return whether the missing pages of these runs may be created: they are few, and pages were
// missing in several consecutive calls.
bool Space::may_create(PlannedRange& range, const std::vector<Places>& runs,
                       std::size_t complete) noexcept {
  if (++range.unsettled_ <= heuristics_.confirmations) return false;
  std::size_t pages = 0;
  std::size_t missing = 0;
  for (std::size_t at = 0; at < runs.size(); ++at) {
    pages += runs[at].size();
    if (at >= complete) missing += runs[at].size();
  }
  const std::size_t few = std::max<std::size_t>(1, spare_pages(pages));
  const std::lock_guard guard(pool_.state());
  return missing <= few && pool_.has_room(missing, few);
}

bool Space::hold(PlannedRange& range, Places places, bool complete) {
  std::vector<Extent> blocked;
  {
    const std::lock_guard guard(pool_.state());
    if (!pool_.admit(places, range.stream(), blocked)) return false;
    if (complete && pool_.needs_pages()) {
      pool_.dismiss(places);
      return false;
    }
  }
  return pool_.provide(places, range.stream(), complete ? 0 : places.size());
}

// Widen the extents to whole pages, and join extents that touch.
void Space::widen_to_pages(std::vector<Extent>& extents) const {
  const auto page = static_cast<Address>(properties_.page);
  std::size_t kept = 0;
  for (const Extent& one : extents) {
    const Address begin = one.address / page * page;
    const Address end = (one.end() + page - 1) / page * page;
    if (kept > 0) {
      Extent& last = extents[kept - 1];
      if (begin <= last.end()) {
        last.bytes = static_cast<Bytes>(std::max(end, last.end()) - last.address);
        continue;
      }
    }
    extents[kept++] = {begin, static_cast<Bytes>(end - begin)};
  }
  extents.resize(kept);
}

bool Space::unsettle(const RangeOwner& owner) noexcept {
  const std::lock_guard working(pool_.work());
  for (const auto& [address, range] : ranges_) {
    const bool settled = &range->owner() == &owner && range->fully_mapped();
    if (settled && !surrender(*range)) return false;
  }
  return true;
}

}  // namespace pgmo::pages
