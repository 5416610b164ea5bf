// Adds blocks to places and removes them. A request with missing pages is served in steps.
//
//     enter       adds a block, if no device call is needed   under the lock
//     admit       notes which places lack a page             under the lock
//     provide     finds pages (supply.cpp) and maps them     device calls, without the lock
//                 (mapping.cpp)

#include "pages/pool/pool.hpp"

#include <algorithm>

#include "checks.hpp"

namespace pgmo::pages {

// --- blocks enter and leave ---------------------------------------------------------------------

bool Pool::enter(Places places, Stream stream) noexcept {
  clocks_.given(stream);
  std::size_t done = 0;
  for (; done < places.size(); ++done) {
    PagePlace& place = places[done];
    if (place.page == nullptr || !place.page->marks.elsewhere(stream).empty()) break;
    if (!adopt(place)) break;
  }
  if (done == places.size()) {
    note_peak();
    return true;
  }
  while (done > 0) drop(places[--done]);
  return false;
}

void Pool::leave(Places places, const Marks& marks) noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) {
    PagePlace& place = places[at];
    place.marks.add(marks);
    if (place.step != Step::kAsleep) {
      place.page->marks.add(marks);
      drop(place);
    } else {
      leave_sleeping(place, marks);
    }
  }
}

// Add a block at a place, with the page that is mapped there. Return false if this page cannot be
// used without a device call, or if the planned page can replace this page now.
bool Pool::adopt(PagePlace& place) noexcept {
  Page* page = place.page;
  if (page == nullptr || place.step != Step::kNone || page->state == State::kMoving) return false;
  if (place.planned_page != page && misplaced(place)) [[unlikely]]
    return false;
  const bool strays =
      place.planned_page != nullptr && place.planned_page != page && place.blocks == 0;
  if (page->home != &place) {
    if (page->state != State::kIdle) return false;
    stale_.remove(place);
    stale_.push_back(*page->home);
    page->home = &place;
  }
  if (place.blocks++ == 0) {
    PGMO_ASSERT(page->state == State::kIdle);
    idle_.remove(*page);
    page->state = State::kUsed;
    ++occupied_;
  }
  PGMO_ASSERT(page->home == &place && page->state == State::kUsed);
  strayed_ |= strays;
  return true;
}

// Return whether the planned page of this place could replace the current one now.
bool Pool::misplaced(const PagePlace& place) const noexcept {
  return place.planned_page != nullptr && place.blocks == 0 && place.page->state == State::kIdle &&
         (place.planned_page->state == State::kIdle || place.planned_page->state == State::kFree) &&
         clocks_.completed(place.marks);
}

void Pool::drop(PagePlace& place) noexcept {
  PGMO_ASSERT(place.blocks > 0 && place.page != nullptr && place.page->home == &place);
  PGMO_ASSERT(place.page->state == State::kUsed);
  if (--place.blocks > 0) return;
  place.shared = false;
  --occupied_;
  become_idle(*place.page);
}

void Pool::become_idle(Page& page) noexcept {
  PGMO_ASSERT(page.state != State::kIdle && page.home != nullptr);
  page.state = State::kIdle;
  idle_.push_back(page);
}

bool Pool::live(Places places) noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) {
    const PagePlace& place = places[at];
    if (place.blocks == 0 || place.page == nullptr || place.step != Step::kNone) return false;
  }
  return true;
}

bool Pool::share(Places places) noexcept {
  if (!live(places)) return false;
  for (std::size_t at = 0; at < places.size(); ++at) places[at].shared = true;
  return true;
}

bool Pool::pin(Places places) noexcept {
  if (!live(places)) return false;
  for (std::size_t at = 0; at < places.size(); ++at) {
    PagePlace& place = places[at];
    if (!place.pinned) ++place.blocks;
    place.pinned = true;
  }
  return true;
}

void Pool::unpin(PagePlace& place) noexcept {
  if (!place.pinned || place.blocks != 1 || place.step != Step::kNone) return;
  place.pinned = false;
  drop(place);
}

void Pool::hold(Places places) noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) places[at].blocks = kHold + places[at].pinned;
}

void Pool::count_held_range() noexcept {
  exact_ = false;
  ++held_ranges_;
}

// A slot may be freed after its owner has listed it and before this call. Its places are then at
// kHold - 1, and this call raises them to kHold, which `release_held` expects.
void Pool::count(Places places) noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) ++places[at].blocks;
}

void Pool::release_held(Places places, const Marks& marks) noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) {
    PGMO_ASSERT(places[at].blocks >= kHold);
    places[at].blocks -= kHold - 1;
  }
  leave(places, marks);
}

void Pool::uncount_held_range() noexcept {
  PGMO_ASSERT(held_ranges_ > 0);
  exact_ = --held_ranges_ == 0;
  ++numbers_.surrenders;
  note_peak();
}

void Pool::note_peak() noexcept {
  if (!exact_) return;
  highest_ = std::max(highest_, occupied_);
  lately_ = std::max(lately_, occupied_);
}

// --- a request with missing pages ---------------------------------------------------------------

bool Pool::admit(Places places, Stream stream, std::vector<Extent>& blocked, Waits waits) {
  needs_.clear();
  needs_.reserve(places.size());
  places_.clear();
  places_.reserve(2 * places.size());
  blocked.reserve(blocked.size() + places.size());
  found_ = 0;
  waits_ = {};
  clocks_.given(stream);
  bool all = true;
  const auto block = [&](const PagePlace& place) {
    blocked.push_back({place.address, properties_.page});
    all = false;
  };
  const bool elsewhere = waits == Waits::kRatherElsewhere && would_wait(places, stream) &&
                         has_spare_pages(places.size(), stream);
  for (std::size_t at = 0; at < places.size(); ++at) {
    PagePlace& place = places[at];
    if (place.step == Step::kAsleep) {
      block(place);
    } else if (adopt(place)) {
      const Marks others = place.page->marks.elsewhere(stream);
      if (others.empty()) continue;
      if (elsewhere && !clocks_.completed(others)) {
        drop(place);
        place.step = Step::kBlocked;
        block(place);
        continue;
      }
      place.step = Step::kAwaitsOthers;
      if (!clocks_.completed(others)) waits_.add(others);
    } else if (place.page == nullptr || clocks_.completed(place.marks)) {
      place.step = Step::kGetsPage;
      place.blocks = 1;
      needs_.push_back({.place = &place});
      if (place.page != nullptr) places_.push_back(&place);
    } else {
      place.step = Step::kBlocked;
      block(place);
    }
  }
  if (!all) dismiss(places);
  return all;
}

bool Pool::would_wait(Places places, Stream stream) const noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) {
    const Page* page = places[at].page;
    if (page != nullptr && !clocks_.completed(page->marks.elsewhere(stream))) return true;
  }
  return false;
}

void Pool::dismiss(Places places) noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) undo(places[at]);
  needs_.clear();
}

void Pool::undo(PagePlace& place) noexcept {
  const Step step = place.step;
  if (step == Step::kAsleep) return;
  place.step = Step::kNone;
  if (step == Step::kBlocked) return;
  if (step == Step::kGetsPage) {
    place.blocks = 0;
  } else {
    drop(place);
  }
}

bool Pool::provide(Places places, Stream stream, std::size_t beyond) noexcept {
  {
    const std::lock_guard guard(state_);
    occupied_ += needs_.size();
    numbers_.requests_that_map += !needs_.empty();
  }
  if (find_pages(stream, beyond)) {
    clear_places();
    if (map() && clocks_.wait(stream, waits_)) {
      commit(places, stream);
      sweep();
      return true;
    }
  }
  roll_back(places);
  return false;
}

// --- statistics ---------------------------------------------------------------------------------

PageStatistics Pool::statistics() const noexcept {
  PageStatistics now = numbers_;
  now.held = static_cast<Bytes>(held_) * properties_.page;
  now.occupied = static_cast<Bytes>(occupied_) * properties_.page;
  now.stale = stale_.size();
  now.events = clocks_.events();
  now.waits = clocks_.waits();
  now.waits_added = clocks_.added();
  return now;
}

void Pool::reset_peaks() noexcept {
  meter_.reset_peak();
  numbers_.peak_held = static_cast<Bytes>(held_ - untouched_) * properties_.page;
}

}  // namespace pgmo::pages
