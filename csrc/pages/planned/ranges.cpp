// Planned ranges. Their slots are counted, except while a range is settled (settling.cpp).
//
//     occupy, vacate      count a block on each page of a slot
//     surrender           make the pages without live slots idle, because other requests need them

#include <algorithm>
#include <bit>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "checks.hpp"
#include "pages/space.hpp"

namespace pgmo::pages {

PlannedRange* Space::reserve_range(Bytes bytes, Stream stream, RangeOwner& owner) noexcept {
  if (bytes <= 0 || bytes > kMostBytes || stream >= kMostStreams) return nullptr;
  const Bytes size = round_up(bytes, properties_.page);
  try {
    const std::lock_guard working(pool_.work());
    Extent where{0, size};
    for (;;) {
      {
        const std::lock_guard guard(pool_.state());
        where.address = planned_.window.find(size);
        if (where.address != 0) {
          (void)places_under(where);
          auto range = std::make_unique<PlannedRange>(where, stream, owner);
          const auto added = ranges_.emplace(where.address, std::move(range)).first;
          try {
            planned_.window.take(where);
          } catch (const std::bad_alloc&) {
            ranges_.erase(added);
            throw;
          }
          return added->second.get();
        }
      }
      if (device_.capturing() || !grow(planned_, size)) return nullptr;
    }
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool Space::occupy(PlannedRange& range, Extent slot, std::uint64_t generation) noexcept {
  if (device_.lost()) return false;
  try {
    {
      const std::lock_guard guard(pool_.state());
      if (range.generation() != generation || PlannedRange::fully_mapped(generation)) return true;
      const Places places = places_under(slot);
      if (await_pages(places)) {
        missed_ += places.size();
        return false;
      }
      if (pool_.enter(places, range.stream())) return true;
    }
    return occupy_with_pages(range, slot, generation);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool Space::await_pages(Places places) noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) {
    if (places[at].awaits_page) return true;
  }
  return false;
}

// Return how many of the places have exactly this number of blocks.
std::size_t Space::count_places_with(Places places, std::uint32_t blocks) noexcept {
  std::size_t count = 0;
  for (std::size_t at = 0; at < places.size(); ++at) count += places[at].blocks == blocks;
  return count;
}

bool Space::occupy_with_pages(PlannedRange& range, Extent slot, std::uint64_t generation) {
  const std::lock_guard working(pool_.work());
  if (device_.capturing()) return false;
  pool_.clocks().catch_up();
  std::vector<Extent> blocked;
  std::optional<Places> places;
  {
    const std::lock_guard guard(pool_.state());
    if (range.generation() != generation) return true;
    places = places_under(slot);
    if (!pool_.admit(*places, range.stream(), blocked)) {
      arranged_ = false;
      missed_ += places->size();
      return false;
    }
    if (pool_.needs_pages()) arranged_ = false;
  }
  return pool_.provide(*places, range.stream());
}

void Space::vacate(PlannedRange& range, Extent slot, std::uint64_t generation) noexcept {
  bool shared = false;
  {
    const std::lock_guard guard(pool_.state());
    if (range.generation() != generation || PlannedRange::fully_mapped(generation)) return;
    const Marks marks = pool_.clocks().now(Marks::bit(range.stream()));
    const Places places = places_under(slot);
    pool_.leave(places, marks);
    for (std::size_t at = 0; at < places.size(); ++at) shared |= places[at].shared_place != nullptr;
  }
  // Record the event now: after a later event, the page's next user would wait for more work.
  if (shared && !device_.capturing()) (void)pool_.clocks().record(range.stream());
}

void Space::share(const RangeOwner& owner, const std::vector<SharedPage>& pages,
                  std::optional<std::size_t> more) {
  const std::lock_guard working(pool_.work());
  std::set<PlannedRange*> sharing;
  for (const SharedPage& page : pages) {
    if (page.size() < 2) continue;
    for (const SharedPlace& sharer : page) sharing.insert(sharer.range);
  }
  for (PlannedRange* const range : sharing) {
    if (range->fully_mapped() && !surrender(*range)) return;
  }
  const std::lock_guard guard(pool_.state());
  std::vector<std::vector<PagePlace*>> plan;
  for (const SharedPage& page : pages) {
    std::vector<PagePlace*> places;
    // Include entries with a single place: other entries could otherwise take their pages.
    for (const SharedPlace& sharer : page) places.push_back(&place_in(sharer));
    // If no page is shared and the order of streams is unknown, there is no plan: arenas would only
    // take pages from each other.
    if (!sharing.empty() || more) plan.push_back(std::move(places));
  }
  SharingPlan& own = plans_[&owner];
  unplan(own.pages);
  own = {std::move(plan), more};
  for (const auto& [address, range] : ranges_) {
    if (&range->owner() == &owner) range->shares_pages_ = sharing.count(range.get()) != 0;
  }
  for (const auto& places : own.pages) {
    for (std::size_t at = 0; at < places.size() && places.size() > 1; ++at) {
      places[at]->shared_place = places[(at + 1) % places.size()];
    }
  }
  arranged_ = false;
  arrangements_ = 0;
  strayed_iterations_ = 0;
}

void Space::arrange(const RangeOwner& owner) noexcept {
  const std::lock_guard working(pool_.work());
  ++iterations_;
  if (device_.capturing()) return;
  const auto plan = plans_.find(&owner);
  if (plan == plans_.end()) return;
  const auto& [pages, more] = plan->second;
  const std::size_t few = spare_pages(pages.size());
  std::size_t missed = 0;
  {
    const std::lock_guard guard(pool_.state());
    missed = std::exchange(missed_, 0);
  }
  if (missed == 0) {
    pool_.nothing_missed();
  } else if (more && arrangements_ > heuristics_.confirmations + 1 &&
             arrangements_ < heuristics_.most_arrangements) {
    pool_.missed_slots(std::min(missed, std::max<std::size_t>(1, few)));
  } else {
    pool_.missed_for_good();
  }
  {
    const std::lock_guard guard(pool_.state());
    if (pool_.take_strayed() && ++strayed_iterations_ <= heuristics_.most_arrangements)
      arranged_ = false;
    if (arranged_ || pages.empty()) return;
    arranged_ = true;
  }
  try {
    Pool::Growth growth;
    if (++arrangements_ > heuristics_.confirmations) {
      growth = more ? Pool::Growth{pages.size(), *more} : Pool::Growth{few, few};
    }
    const auto in_use = strayed_iterations_ > heuristics_.confirmations ? Pool::InUse::kAwaitsPage
                                                                        : Pool::InUse::kStays;
    const bool complete = pool_.arrange(pages, growth, in_use);
    const std::lock_guard guard(pool_.state());
    if (!complete && more && arrangements_ < heuristics_.most_arrangements) arranged_ = false;
  } catch (const std::bad_alloc&) {
    // If the host is out of memory, pages are mapped when a slot needs them.
  }
}

PagePlace& Space::place_in(const SharedPlace& sharer) {
  const auto offset = static_cast<Address>(sharer.page) * static_cast<Address>(properties_.page);
  return places_under({sharer.range->where().address + offset, properties_.page})[0];
}

// Forget what a plan has set at its places. Requires `state`.
void Space::unplan(const std::vector<std::vector<PagePlace*>>& plan) noexcept {
  for (const auto& places : plan) {
    for (PagePlace* const place : places) {
      place->shared_place = nullptr;
      place->planned_page = nullptr;
      place->awaits_page = false;
    }
  }
}

// Requires `state`.
void Space::forget_plan(const RangeOwner& owner) noexcept {
  const auto plan = plans_.find(&owner);
  if (plan == plans_.end()) return;
  unplan(plan->second.pages);
  plans_.erase(plan);
  for (const auto& [address, range] : ranges_) {
    if (&range->owner() == &owner) range->shares_pages_ = false;
  }
}

bool Space::close_range(PlannedRange& range) noexcept {
  const std::lock_guard working(pool_.work());
  if (range.fully_mapped() && !surrender(range)) return false;
  const std::lock_guard guard(pool_.state());
  const Extent where = range.where();
  const Places places = places_under(where);
  for (std::size_t at = 0; at < places.size(); ++at) {
    if (places[at].blocks > places[at].pinned) return false;
  }
  forget_plan(range.owner());
  planned_.window.give(where);
  range.close();
  closed_ranges_.insert(ranges_.extract(where.address));
  return true;
}

bool Space::surrender() noexcept {
  bool any = false;
  for (const auto& [address, range] : ranges_) {
    if (range->fully_mapped()) any = surrender(*range) || any;
  }
  return any;
}

bool Space::surrender(PlannedRange& range) noexcept {
  living_.clear();
  try {
    range.owner().list_living(range, living_);
  } catch (const std::bad_alloc&) {
    return false;
  }
  const int most_early = std::bit_width(static_cast<unsigned>(heuristics_.most_arrangements)) - 1;
  range.early_surrenders_ =
      iterations_ <= range.settled_at_ + 1 ? std::min(range.early_surrenders_ + 1, most_early) : 0;
  range.iterations_to_count_ = range.early_surrenders_ > 1 ? 1 << range.early_surrenders_ : 0;
  const std::lock_guard guard(pool_.state());
  for (const Extent& slot : living_) pool_.count(places_under(slot));
  const Marks now = pool_.clocks().now(Marks::bit(range.stream()));
  for (const Extent& extent : range.settled_) pool_.release_held(places_under(extent), now);
  pool_.uncount_held_range();
  range.settled_.clear();
  PGMO_ASSERT_EXPENSIVE(pool_.consistent());
  return true;
}

}  // namespace pgmo::pages
