// Finds pages for a request, and returns pages to the device. A request gets, in this order:
// 1. the page planned for a place, or the page at another place of its plan entry;
// 2. free pages;
// 3. idle pages, as many as needed so that new pages do not exceed `target()`, the highest
//    occupancy plus pages for refused slots;
// 4. new pages;
// 5. any idle pages, if no page can be created.

#include <algorithm>
#include <new>

#include "checks.hpp"
#include "pages/pool/pool.hpp"

namespace pgmo::pages {

// --- pages for requests -------------------------------------------------------------------------

std::size_t Pool::target() const noexcept {
  return (exact_ ? std::max(highest_, occupied_) : highest_) + beyond_;
}

// Return whether `find_pages` would find this many pages without a wait. Return false if the
// request would raise the highest occupancy. Count new pages only up to the target: avoiding one
// wait is not worth permanently more pages.
bool Pool::has_spare_pages(std::size_t count, Stream stream) const noexcept {
  if (exact_ && occupied_ + count > highest_) return false;
  const std::size_t most = std::min({target(), limit_, properties_.most_pages});
  std::size_t found = free_.size() + (most > held_ ? most - held_ : 0);
  std::size_t looks = 0;
  for (const Page* page = idle_.first(); page != nullptr && found < count; page = page->next) {
    if (++looks > kMostLooks) break;
    found += may_use(*page, stream, false);
  }
  return found >= count;
}

bool Pool::find_pages(Stream stream, std::size_t beyond) noexcept {
  if (!find_enough(stream, beyond)) return false;
  // Sort by address, because one call of `grant` serves consecutive pages.
  std::sort(needs_.begin(), needs_.end(), [](const Need& one, const Need& other) {
    return one.place->address < other.place->address;
  });
  return true;
}

bool Pool::find_enough(Stream stream, std::size_t beyond) noexcept {
  const auto from_idle = [&] {
    const std::size_t wanted = target() + beyond;
    const std::size_t rest = wanted > held_ ? wanted - held_ : 0;
    return missing() > rest ? missing() - rest : 0;
  };
  bool too_few = false;
  {
    const std::lock_guard guard(state_);
    use_shared_places(stream);
    use_free();
    too_few = from_idle() > idle_.size();
  }
  if (too_few) surrender();
  {
    const std::lock_guard guard(state_);
    use_idle(stream, from_idle());
  }
  while (missing() > 0) {
    Page* const created = create();
    if (created == nullptr) break;
    needs_[found_++].page = created;
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

// For each place, use the page planned for it, or the page at another place of its plan entry. Once
// such a page is mapped at all its places, the next place uses it without a device call.
void Pool::use_shared_places(Stream stream) noexcept {
  for (std::size_t at = found_; at < needs_.size(); ++at) {
    const PagePlace& place = *needs_[at].place;
    const auto take = [&](Page* page) {
      if (page == nullptr) return false;
      if (page->state == State::kIdle && may_use(*page, stream, true)) {
        std::swap(needs_[at], needs_[found_]);
        use(*page, stream);
        return true;
      }
      if (page->state != State::kFree) return false;
      std::swap(needs_[at], needs_[found_]);
      use_free(*page);
      return true;
    };
    bool taken = take(place.planned_page);
    for (const PagePlace* other = place.shared_place; !taken && other != nullptr && other != &place;
         other = other->shared_place) {
      taken = take(other->page);
    }
  }
}

void Pool::use_free() noexcept {
  while (missing() > 0 && !free_.empty()) use_free(*free_.first());
}

void Pool::use_free(Page& page) noexcept {
  free_.remove(page);
  page.state = State::kMoving;
  needs_[found_++].page = &page;
}

// Take at most `most` idle pages in two passes: first pages that need no wait, then any page that
// the stream may use. Begin with the page that is idle longest: its home will probably need it
// last.
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
  if (!properties_.aliases) return clocks_.completed(page.marks);
  return behind_events || clocks_.completed(page.marks.elsewhere(stream));
}

void Pool::use(Page& page, Stream stream) noexcept {
  PGMO_ASSERT(page.state == State::kIdle);
  idle_.remove(page);
  page.state = State::kMoving;
  const Marks others = page.marks.elsewhere(stream);
  if (!clocks_.completed(others)) waits_.add(others);
  ++numbers_.taken;
  numbers_.lends += !clocks_.completed(page.marks);
  if (!properties_.aliases) {
    page.home->step = Step::kLosesPage;
    places_.push_back(page.home);
  }
  needs_[found_++].page = &page;
}

Page* Pool::create() noexcept {
  Page* page = nullptr;
  {
    const std::lock_guard guard(state_);
    if (held_ >= limit_ || held_ >= properties_.most_pages) return nullptr;
    try {
      if (gone_.empty()) gone_.push_back(pages_.emplace_back());
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    page = gone_.first();
    gone_.remove(*page);
  }
  const bool created = device_.create(page->handle);
  const std::lock_guard guard(state_);
  if (!created) {
    gone_.push_back(*page);
    return nullptr;
  }
  ++held_;
  ++untouched_;
  page->untouched = true;
  page->state = State::kMoving;
  return page;
}

// --- returning pages to the device --------------------------------------------------------------

Bytes Pool::give_back(Bytes bytes) noexcept {
  Bytes released = 0;
  for (bool asked = false; released < bytes;) {
    Page* page = nullptr;
    {
      const std::lock_guard guard(state_);
      page = take_to_release(true);
    }
    if (page == nullptr) {
      if (asked || !surrender()) break;
      asked = true;
      clocks_.catch_up();
      continue;
    }
    release(*page);
    released += properties_.page;
  }
  return released;
}

// Return an idle page whose last use is completed; null if none of the longest idle pages
// qualifies. `page->marks` covers the uses through all its mappings. Each user came later on the
// same stream, or waited for the earlier users. `claimed`: also return pages that the last
// arrangement has claimed.
Page* Pool::idle_and_completed(bool claimed) noexcept {
  std::size_t looks = 0;
  for (Page* page = idle_.first(); page != nullptr && looks < kMostLooks; page = page->next) {
    const bool mine = claimed || page->claimed != arrangement_;
    if (mine && clocks_.completed(page->marks)) return page;
    ++looks;
  }
  return nullptr;
}

// Take a free page, else the page of `idle_and_completed`, so that `release` can release it. Return
// null if there is none. Requires `state`.
Page* Pool::take_to_release(bool claimed) noexcept {
  Page* const page = free_.empty() ? idle_and_completed(claimed) : free_.first();
  if (page == nullptr) return nullptr;
  (page->state == State::kFree ? free_ : idle_).remove(*page);
  page->state = State::kMoving;
  return page;
}

// Release a moving page, whose mappings no other thread uses.
void Pool::release(Page& page) noexcept {
  std::uint64_t unmaps = 0;
  for (const PagePlace* place = page.places; place != nullptr; place = place->another, ++unmaps) {
    device_.unmap(place->address, properties_.page);
  }
  {
    const std::lock_guard guard(state_);
    while (page.places != nullptr) unlink(*page.places);
    numbers_.unmaps += unmaps;
  }
  device_.release(page.handle);
  const std::lock_guard guard(state_);
  PGMO_ASSERT(held_ > 0 && page.state == State::kMoving);
  page.marks = {};
  page.state = State::kGone;
  gone_.push_back(page);
  --held_;
  if (page.untouched) {  // only a failed request has ever had it
    --untouched_;
    return;
  }
  ++numbers_.releases;
  meter_.pages_change(-properties_.page);
  device_.took(-properties_.page);
  PGMO_ASSERT_EXPENSIVE(consistent());
}

Bytes Pool::limit(Bytes bytes) noexcept {
  const std::lock_guard guard(state_);
  limit_ = static_cast<std::size_t>(std::max<Bytes>(bytes, 0) / properties_.page);
  return held_ > limit_ ? static_cast<Bytes>(held_ - limit_) * properties_.page : 0;
}

}  // namespace pgmo::pages
