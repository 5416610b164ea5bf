// Maps and unmaps pages. Device calls run without the lock `state`; their results are noted under
// the lock. A request links its places only after all its device calls have succeeded.

#include <array>
#include <utility>

#include "checks.hpp"
#include "pages/pool/pool.hpp"

namespace pgmo::pages {

void Pool::clear_places() noexcept {
  unmap(places_);
  const std::lock_guard guard(state_);
  for (PagePlace* place : places_) {
    clear(*place);
    if (place->step == Step::kLosesPage) place->step = Step::kNone;
  }
}

// Requires that the lock is not held.
void Pool::unmap(std::span<PagePlace* const> places) noexcept {
  std::uint64_t calls = 0;
  for (std::size_t first = 0, last = 0; first < places.size(); first = last, ++calls) {
    const Address begin = places[first]->address;
    Address end = begin;
    for (; last < places.size() && places[last]->address == end; ++last) {
      end += static_cast<Address>(properties_.page);
    }
    device_.unmap(begin, static_cast<Bytes>(end - begin));
  }
  const std::lock_guard guard(state_);
  numbers_.unmaps += calls;
}

bool Pool::map() noexcept {
  std::uint64_t maps = 0;
  std::uint64_t grants = 0;
  bool all = true;
  for (Need& need : needs_) {
    need.mapped = device_.map(need.place->address, need.page->handle);
    if (!need.mapped) all = false;
    if (!all) break;
    ++maps;
  }
  for (std::size_t first = 0, last = 0; all && first < needs_.size(); first = last, ++grants) {
    const Address begin = needs_[first].place->address;
    Address end = begin;
    for (; last < needs_.size() && needs_[last].place->address == end; ++last) {
      end += static_cast<Address>(properties_.page);
    }
    all = device_.grant(begin, static_cast<Bytes>(end - begin));
    if (!all) break;
  }
  refused_ = !all;
  const std::lock_guard guard(state_);
  numbers_.maps += maps;
  numbers_.grants += grants;
  return all;
}

void Pool::link(PagePlace& place, Page& page) noexcept {
  PGMO_ASSERT(place.page == nullptr && place.another == nullptr);
  if (page.untouched) touch(page);
  if (place.step == Step::kAsleep) meter_.asleep_change(-properties_.page);
  place.page = &page;
  place.another = page.places;
  page.places = &place;
  place.marks = {};
}

// Count a page in the statistics at its first use. Failed requests do not count as uses.
void Pool::touch(Page& page) noexcept {
  page.untouched = false;
  --untouched_;
  ++numbers_.creates;
  const Bytes touched = static_cast<Bytes>(held_ - untouched_) * properties_.page;
  numbers_.peak_held = std::max(numbers_.peak_held, touched);
  meter_.pages_change(properties_.page);
  device_.took(properties_.page);
}

void Pool::unlink(PagePlace& place) noexcept {
  PGMO_ASSERT(place.page != nullptr);
  Page& page = *place.page;
  if (place.step == Step::kAsleep) meter_.asleep_change(properties_.page);
  if (page.home == &place) {
    page.home = nullptr;
  } else {
    stale_.remove(place);
  }
  PagePlace** at = &page.places;
  while (*at != &place) at = &(*at)->another;
  *at = place.another;
  place.another = nullptr;
  place.page = nullptr;
}

// If a page has no home, make one of its places its home.
void Pool::find_home(Page& page) noexcept {
  if (page.home != nullptr || page.places == nullptr) return;
  page.home = page.places;
  stale_.remove(*page.home);
}

// Unlink a place. If an idle page loses its home, another of its places becomes its home. Without
// other places, the page becomes free.
void Pool::clear(PagePlace& place) noexcept {
  Page& page = *place.page;
  unlink(place);
  if (page.state != State::kIdle || page.home != nullptr) return;
  find_home(page);
  if (page.home == nullptr) {
    idle_.remove(page);
    page.state = State::kFree;
    free_.push_back(page);
  }
}

void Pool::commit(Places places, Stream stream) noexcept {
  const std::lock_guard guard(state_);
  for (const Need& need : needs_) {
    Page& page = *need.page;
    if (page.home != nullptr) stale_.push_back(*page.home);
    link(*need.place, page);
    page.home = need.place;
    page.state = State::kUsed;
    numbers_.hand_overs += !page.marks.elsewhere(stream).empty();
    page.marks = page.marks.on(stream);
    need.place->step = Step::kNone;
  }
  for (std::size_t at = 0; at < places.size(); ++at) {
    PagePlace& place = places[at];
    if (place.step != Step::kAwaitsOthers) continue;
    place.step = Step::kNone;
    ++numbers_.hand_overs;
    place.marks = place.marks.on(stream);
    place.page->marks = place.page->marks.on(stream);
  }
  note_peak();
  PGMO_ASSERT_EXPENSIVE(consistent());
}

void Pool::roll_back(Places places) noexcept {
  abandon_needs();
  const std::lock_guard guard(state_);
  dismiss(places);
  PGMO_ASSERT_EXPENSIVE(consistent());
}

// Give up the pages of the failed request. If the device refused to map a page, release the pages
// that are mapped nowhere: the device may refuse them again, but accept new pages.
void Pool::abandon_needs() noexcept {
  // No work has used the new mappings yet, so they can be unmapped at once.
  std::uint64_t unmaps = 0;
  for (const Need& need : needs_) {
    if (!need.mapped) continue;
    device_.unmap(need.place->address, properties_.page);
    ++unmaps;
  }
  const bool refused = std::exchange(refused_, false);
  {
    const std::lock_guard guard(state_);
    numbers_.unmaps += unmaps;
    for (PagePlace* place : places_) {
      if (place->step == Step::kLosesPage) place->step = Step::kNone;
    }
    occupied_ -= needs_.size();
    for (Need& need : needs_) {
      if (need.page == nullptr) continue;
      find_home(*need.page);  // its home was cleared for another page
      if (need.page->home != nullptr) {
        become_idle(*need.page);
      } else if (!refused) {
        need.page->state = State::kFree;
        free_.push_back(*need.page);
      } else {
        continue;
      }
      need.page = nullptr;  // other requests may take it from now on
    }
  }
  for (const Need& need : needs_) {
    if (need.page != nullptr) release(*need.page);
  }
}

// If there are more stale mappings than Heuristics::stale_mappings, unmap some of the oldest.
void Pool::sweep() noexcept {
  std::array<PagePlace*, kMostSwept> swept{};
  std::size_t count = 0;
  {
    const std::lock_guard guard(state_);
    std::size_t looks = 0;
    for (PagePlace* place = stale_.first(); place != nullptr && looks < 4 * kMostSwept; ++looks) {
      if (count == kMostSwept || stale_.size() <= heuristics_.stale_mappings + count) break;
      PagePlace& one = *place;
      place = place->next;
      if (!clocks_.completed(one.marks)) continue;
      one.step = Step::kLosesPage;
      swept[count++] = &one;
    }
  }
  if (count == 0) return;
  const std::span<PagePlace* const> places(swept.data(), count);
  unmap(places);
  const std::lock_guard guard(state_);
  for (PagePlace* place : places) {
    unlink(*place);
    place->step = Step::kNone;
  }
}

}  // namespace pgmo::pages
