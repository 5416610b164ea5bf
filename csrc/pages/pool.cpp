#include "pages/pool.hpp"

#include <algorithm>
#include <array>
#include <new>

namespace pgmo::pages {
namespace {

using State = Page::State;
using Step = Place::Step;

}  // namespace

// --- blocks come and go
// ---------------------------------------------------------------------------

bool Pool::enter(Places places, Stream stream) noexcept {
  std::size_t done = 0;
  for (; done < places.size(); ++done) {
    Place& place = places[done];
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
    Place& place = places[at];
    place.marks.add(marks);
    place.page->marks.add(marks);
    drop(place);
  }
}

// A block more at a place, with the page that is mapped there.
bool Pool::adopt(Place& place) noexcept {
  Page* page = place.page;
  if (page == nullptr || place.step != Step::kNone || page->state == State::kMoving) return false;
  if (page->home != &place) {
    if (page->state != State::kIdle) return false;
    stale_.remove(place);
    stale_.push_back(*page->home);
    page->home = &place;
  }
  if (place.blocks++ == 0) {
    idle_.remove(*page);
    page->state = State::kUsed;
    ++occupied_;
  }
  return true;
}

void Pool::drop(Place& place) noexcept {
  if (--place.blocks > 0) return;
  --occupied_;
  become_idle(*place.page);
}

void Pool::become_idle(Page& page) noexcept {
  page.state = State::kIdle;
  idle_.push_back(page);
}

bool Pool::pin(Places places) noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) {
    const Place& place = places[at];
    if (place.blocks == 0 || place.page == nullptr || place.step != Step::kNone) return false;
  }
  for (std::size_t at = 0; at < places.size(); ++at) {
    Place& place = places[at];
    if (!place.pinned) ++place.blocks;
    place.pinned = true;
  }
  return true;
}

void Pool::hold(Places places) noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) places[at].blocks = kHold + places[at].pinned;
}

void Pool::began_to_hold() noexcept {
  exact_ = false;
  ++held_ranges_;
}

void Pool::count(Places places) noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) ++places[at].blocks;
}

void Pool::let_go(Places places, const Marks& marks) noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) places[at].blocks -= kHold - 1;
  leave(places, marks);
}

void Pool::ceased_to_hold() noexcept {
  exact_ = --held_ranges_ == 0;
  ++numbers_.surrenders;
  note_peak();
}

void Pool::note_peak() noexcept {
  if (!exact_) return;
  highest_ = std::max(highest_, occupied_);
  numbers_.peak_occupied =
      std::max(numbers_.peak_occupied, static_cast<Bytes>(occupied_) * tuning_.page);
}

// --- a request that finds something missing
// -------------------------------------------------------

bool Pool::admit(Places places, Stream stream, std::vector<Extent>& blocked) {
  needs_.clear();
  needs_.reserve(places.size());
  places_.clear();
  places_.reserve(2 * places.size());
  blocked.reserve(blocked.size() + places.size());
  found_ = 0;
  waits_ = {};
  bool all = true;
  for (std::size_t at = 0; at < places.size(); ++at) {
    Place& place = places[at];
    if (adopt(place)) {
      const Marks others = place.page->marks.elsewhere(stream);
      if (others.empty()) continue;
      place.step = Step::kAwaitsOthers;
      if (!clocks_.completed(others)) waits_.add(others);
    } else if (place.page == nullptr || clocks_.completed(place.marks)) {
      place.step = Step::kGetsPage;
      place.blocks = 1;
      needs_.push_back({.place = &place});
      if (place.page != nullptr) places_.push_back(&place);
    } else {
      place.step = Step::kBlocked;
      blocked.push_back({place.address, tuning_.page});
      all = false;
    }
  }
  if (!all) dismiss(places);
  return all;
}

void Pool::dismiss(Places places) noexcept {
  for (std::size_t at = 0; at < places.size(); ++at) undo(places[at]);
  needs_.clear();
}

void Pool::undo(Place& place) noexcept {
  const Step step = place.step;
  place.step = Step::kNone;
  if (step == Step::kBlocked) return;
  if (step == Step::kGetsPage) {
    place.blocks = 0;
  } else {
    drop(place);
  }
}

bool Pool::provide(Places places, Stream stream) noexcept {
  {
    const std::lock_guard guard(state_);
    occupied_ += needs_.size();
    numbers_.requests_that_map += !needs_.empty();
  }
  if (find_pages(stream)) {
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

// --- whose pages
// ----------------------------------------------------------------------------------

std::size_t Pool::target() const noexcept {
  const std::size_t most = exact_ ? std::max(highest_, occupied_) : highest_;
  return most + (most * tuning_.slack + 999) / 1000;
}

bool Pool::find_pages(Stream stream) noexcept {
  const auto from_idle = [&] {
    const std::size_t wanted = target();
    const std::size_t rest = wanted > held_ ? wanted - held_ : 0;
    return missing() > rest ? missing() - rest : 0;
  };
  bool too_few = false;
  {
    const std::lock_guard guard(state_);
    use_free();
    too_few = from_idle() > idle_.size();
  }
  if (too_few) surrender();
  {
    const std::lock_guard guard(state_);
    use_idle(stream, from_idle());
  }
  while (missing() > 0 && create()) {
  }
  if (missing() == 0) return true;
  surrender();
  const std::lock_guard guard(state_);
  use_idle(stream, missing());
  return missing() == 0;
}

bool Pool::surrender() noexcept {
  return uncounted_ != nullptr && !exact_ && uncounted_->surrender();
}

void Pool::use_free() noexcept {
  while (missing() > 0 && !free_.empty()) {
    Page& page = *free_.first();
    free_.remove(page);
    page.state = State::kMoving;
    needs_[found_++].page = &page;
  }
}

// Those that have idled longest first: their last use is over, and they are missed last.
void Pool::use_idle(Stream stream, std::size_t most) noexcept {
  for (const bool behind_events : {false, true}) {
    std::size_t looks = 0;
    for (Page* page = idle_.first(); page != nullptr && most > 0 && looks < kMostLooks; ++looks) {
      Page& one = *page;
      page = page->next;
      if (!may_use(one, stream, behind_events)) continue;
      use(one, stream);
      --most;
    }
  }
}

bool Pool::may_use(const Page& page, Stream stream, bool behind_events) const noexcept {
  if (!tuning_.aliases) return clocks_.completed(page.marks);
  return behind_events || clocks_.completed(page.marks.elsewhere(stream));
}

void Pool::use(Page& page, Stream stream) noexcept {
  idle_.remove(page);
  page.state = State::kMoving;
  const Marks others = page.marks.elsewhere(stream);
  if (!clocks_.completed(others)) waits_.add(others);
  ++numbers_.taken;
  numbers_.lends += !clocks_.completed(page.marks);
  if (!tuning_.aliases) {
    page.home->step = Step::kLosesPage;
    places_.push_back(page.home);
  }
  needs_[found_++].page = &page;
}

bool Pool::create() noexcept {
  Page* page = nullptr;
  {
    const std::lock_guard guard(state_);
    if (held_ >= limit_ || held_ >= tuning_.most_pages) return false;
    try {
      if (gone_.empty()) gone_.push_back(pages_.emplace_back());
    } catch (const std::bad_alloc&) {
      return false;
    }
    page = gone_.first();
    gone_.remove(*page);
  }
  const bool created = device_.create(page->handle);
  const std::lock_guard guard(state_);
  if (!created) {
    gone_.push_back(*page);
    return false;
  }
  ++held_;
  ++numbers_.creates;
  numbers_.peak_held = std::max(numbers_.peak_held, static_cast<Bytes>(held_) * tuning_.page);
  page->state = State::kMoving;
  needs_[found_++].page = page;
  return true;
}

// --- where they are mapped
// ------------------------------------------------------------------------

void Pool::clear_places() noexcept {
  unmap(places_);
  const std::lock_guard guard(state_);
  for (Place* place : places_) {
    unlink(*place);
    if (place->step == Step::kLosesPage) place->step = Step::kNone;
  }
}

// The lock is not held.
void Pool::unmap(std::span<Place* const> places) noexcept {
  std::uint64_t calls = 0;
  for (std::size_t first = 0, last = 0; first < places.size(); first = last, ++calls) {
    const Address begin = places[first]->address;
    Address end = begin;
    for (; last < places.size() && places[last]->address == end; ++last) {
      end += static_cast<Address>(tuning_.page);
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
      end += static_cast<Address>(tuning_.page);
    }
    all = device_.grant(begin, static_cast<Bytes>(end - begin));
  }
  const std::lock_guard guard(state_);
  numbers_.maps += maps;
  numbers_.grants += grants;
  return all;
}

void Pool::link(Place& place, Page& page) noexcept {
  place.page = &page;
  place.another = page.places;
  page.places = &place;
  place.marks = {};
}

void Pool::unlink(Place& place) noexcept {
  Page& page = *place.page;
  if (page.home == &place) {
    page.home = nullptr;
  } else {
    stale_.remove(place);
  }
  Place** at = &page.places;
  while (*at != &place) at = &(*at)->another;
  *at = place.another;
  place.another = nullptr;
  place.page = nullptr;
}

void Pool::commit(Places places, Stream stream) noexcept {
  const std::lock_guard guard(state_);
  for (const Need& need : needs_) {
    Page& page = *need.page;
    if (page.home != nullptr) stale_.push_back(*page.home);
    link(*need.place, page);
    page.home = need.place;
    page.state = State::kUsed;
    page.marks = page.marks.on(stream);
    need.place->step = Step::kNone;
  }
  for (std::size_t at = 0; at < places.size(); ++at) {
    Place& place = places[at];
    if (place.step != Step::kAwaitsOthers) continue;
    place.step = Step::kNone;
    place.marks = place.marks.on(stream);
    place.page->marks = place.page->marks.on(stream);
  }
  note_peak();
}

void Pool::roll_back(Places places) noexcept {
  // Nothing has used what has just been mapped.
  for (const Need& need : needs_) {
    if (need.mapped) device_.unmap(need.place->address, tuning_.page);
  }
  const std::lock_guard guard(state_);
  for (Place* place : places_) {
    if (place->step == Step::kLosesPage) place->step = Step::kNone;
  }
  occupied_ -= needs_.size();
  for (const Need& need : needs_) {
    if (need.page == nullptr) continue;
    if (need.page->home == nullptr) {
      need.page->state = State::kFree;
      free_.push_back(*need.page);
    } else {
      become_idle(*need.page);
    }
  }
  dismiss(places);
}

// Mappings that are in nobody's way go when there are too many.
void Pool::sweep() noexcept {
  std::array<Place*, kMostSwept> swept{};
  std::size_t count = 0;
  {
    const std::lock_guard guard(state_);
    std::size_t looks = 0;
    for (Place* place = stale_.first(); place != nullptr && looks < 4 * kMostSwept; ++looks) {
      if (count == kMostSwept || stale_.size() <= tuning_.most_stale + count) break;
      Place& one = *place;
      place = place->next;
      if (!clocks_.completed(one.marks)) continue;
      one.step = Step::kLosesPage;
      swept[count++] = &one;
    }
  }
  if (count == 0) return;
  const std::span<Place* const> places(swept.data(), count);
  unmap(places);
  const std::lock_guard guard(state_);
  for (Place* place : places) {
    unlink(*place);
    place->step = Step::kNone;
  }
}

// --- back to the device
// ---------------------------------------------------------------------------

Bytes Pool::give_back(Bytes bytes) noexcept {
  Bytes released = 0;
  for (bool asked = false; released < bytes;) {
    Page* page = nullptr;
    {
      const std::lock_guard guard(state_);
      page = free_.empty() ? idle_and_completed() : free_.first();
      if (page != nullptr) {
        (page->state == State::kFree ? free_ : idle_).remove(*page);
        page->state = State::kMoving;
      }
    }
    if (page == nullptr) {
      if (asked || !surrender()) break;
      asked = true;
      clocks_.catch_up();
      continue;
    }
    release(*page);
    released += tuning_.page;
  }
  return released;
}

// The last uses of a page are behind those through each of its mappings: whoever took it came after
// them in the order of a stream, or has waited.
Page* Pool::idle_and_completed() noexcept {
  std::size_t looks = 0;
  for (Page* page = idle_.first(); page != nullptr && looks < kMostLooks; page = page->next) {
    if (clocks_.completed(page->marks)) return page;
    ++looks;
  }
  return nullptr;
}

// A moving page, whose mappings are nobody else's business.
void Pool::release(Page& page) noexcept {
  std::uint64_t unmaps = 0;
  for (const Place* place = page.places; place != nullptr; place = place->another, ++unmaps) {
    device_.unmap(place->address, tuning_.page);
  }
  {
    const std::lock_guard guard(state_);
    while (page.places != nullptr) unlink(*page.places);
    numbers_.unmaps += unmaps;
  }
  device_.release(page.handle);
  const std::lock_guard guard(state_);
  page.marks = {};
  page.state = State::kFree;
  gone_.push_back(page);
  --held_;
  ++numbers_.releases;
}

Bytes Pool::limit(Bytes bytes) noexcept {
  const std::lock_guard guard(state_);
  limit_ = static_cast<std::size_t>(std::max<Bytes>(bytes, 0) / tuning_.page);
  return held_ > limit_ ? static_cast<Bytes>(held_ - limit_) * tuning_.page : 0;
}

// --- numbers
// --------------------------------------------------------------------------------------

Statistics Pool::statistics() const noexcept {
  Statistics now = numbers_;
  now.held = static_cast<Bytes>(held_) * tuning_.page;
  now.occupied = static_cast<Bytes>(occupied_) * tuning_.page;
  now.stale = stale_.size();
  now.events = clocks_.events() - events_before_;
  now.waits = clocks_.waits() - waits_before_;
  return now;
}

void Pool::reset_statistics() noexcept {
  numbers_ = {};
  events_before_ = clocks_.events();
  waits_before_ = clocks_.waits();
  reset_peaks();
}

void Pool::reset_peaks() noexcept {
  numbers_.peak_held = static_cast<Bytes>(held_) * tuning_.page;
  if (exact_) numbers_.peak_occupied = static_cast<Bytes>(occupied_) * tuning_.page;
}

}  // namespace pgmo::pages
