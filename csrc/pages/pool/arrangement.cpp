// Maps the pages of a plan before slots need them. Between two iterations most pages are idle, and
// the last uses of mappings in the way are usually completed.

#include <algorithm>

#include "pages/pool/pool.hpp"

namespace pgmo::pages {

bool Pool::arrange(const std::vector<std::vector<PagePlace*>>& plan, const Growth& growth,
                   InUse in_use) {
  if (!properties_.aliases) return true;
  clocks_.catch_up();
  std::size_t most = 0;
  for (const auto& places : plan) most += places.size();
  std::vector<Page*> pages(plan.size());
  wanted_.clear();
  wanted_.reserve(most);
  places_.clear();
  places_.reserve(most);
  {
    const std::lock_guard guard(state_);
    claim_pages(plan, pages);
  }
  create_for(pages, growth);
  bool complete = true;
  {
    const std::lock_guard guard(state_);
    for (std::size_t at = 0; at < plan.size(); ++at) {
      complete = complete && pages[at] != nullptr;
      for (PagePlace* const place : plan[at]) {
        place->planned_page = pages[at];
        place->awaits_page = false;
        if (pages[at] == nullptr || place->page == pages[at] || want(*place, *pages[at])) continue;
        place->awaits_page = place->blocks == 0 && in_use == InUse::kAwaitsPage;
        complete = complete && !place->awaits_page;
      }
    }
  }
  const auto by_address = [](const PagePlace* one, const PagePlace* other) {
    return one->address < other->address;
  };
  std::sort(places_.begin(), places_.end(), by_address);
  std::sort(wanted_.begin(), wanted_.end(),
            [&](const Need& one, const Need& other) { return by_address(one.place, other.place); });
  unmap(places_);
  needs_.swap(wanted_);  // the same code maps the needs of a request
  const bool all = map();
  needs_.swap(wanted_);
  if (!all) {
    for (Need& one : wanted_) {
      if (one.mapped) device_.unmap(one.place->address, properties_.page);
      one.mapped = false;
    }
  }
  const std::lock_guard guard(state_);
  for (PagePlace* const place : places_) clear(*place);
  for (const Need& one : wanted_) {
    one.place->step = Step::kNone;
    if (!one.mapped) continue;
    add_mapping(*one.place, *one.page);
    ++numbers_.arranged;
  }
  return complete && all;
}

// Choose a page for each entry of the plan. An entry gets none if all pages are claimed. A mapping
// cannot change while a block lives there or running work uses the address. So choose, in this
// order:
// 1. the page at a place of the entry where a block lives;
// 2. the page at a place of the entry that running work still uses;
// 3. the page planned before;
// 4. any page mapped at a place of the entry;
// 5. a free page, or else an idle page.
void Pool::claim_pages(const std::vector<std::vector<PagePlace*>>& plan,
                       std::vector<Page*>& pages) noexcept {
  ++arrangement_;
  enum class Claim : std::uint8_t { kLivesThere, kStays, kAgain, kIsThere };
  for (const Claim claim : {Claim::kLivesThere, Claim::kStays, Claim::kAgain, Claim::kIsThere}) {
    for (std::size_t at = 0; at < plan.size(); ++at) {
      for (const PagePlace* const place : plan[at]) {
        if (claim == Claim::kLivesThere && place->blocks == 0) continue;
        if (claim == Claim::kStays && clocks_.completed(place->marks)) continue;
        Page* const page = claim == Claim::kAgain ? place->planned_page : place->page;
        if (pages[at] != nullptr || page == nullptr || page->claimed == arrangement_) continue;
        if (!belongs(*page, *place)) continue;
        page->claimed = arrangement_;
        pages[at] = page;
      }
    }
  }
  Page* idle = idle_.first();
  Page* free = free_.first();
  for (Page*& page : pages) {
    if (page != nullptr) continue;
    while (idle != nullptr && idle->claimed == arrangement_) idle = idle->next;
    Page*& next = free != nullptr ? free : idle;
    if (next == nullptr) break;
    page = next;
    page->claimed = arrangement_;
    next = next->next;
  }
}

void Pool::create_for(std::vector<Page*>& pages, const Growth& growth) noexcept {
  const auto missing = static_cast<std::size_t>(std::count(pages.begin(), pages.end(), nullptr));
  if (missing > growth.most_missing) return;
  for (Page*& page : pages) {
    if (page != nullptr) continue;
    {
      const std::lock_guard guard(state_);
      if (held_ >= std::max(highest_ + growth.beyond, pages.size()) + beyond_) return;
    }
    page = create();
    if (page == nullptr) return;
    const std::lock_guard guard(state_);
    page->state = State::kFree;
    free_.push_back(*page);
  }
}

// Return whether the page is idle, or used only by blocks at places of the plan entry.
bool Pool::belongs(const Page& page, const PagePlace& place) noexcept {
  if (page.state != State::kUsed) return page.state == State::kIdle;
  const PagePlace* at = &place;
  do {
    if (page.home == at) return true;
    at = at->shared_place;
  } while (at != nullptr && at != &place);
  return false;
}

// Request a mapping of this page at this place. Return false if a block lives there, if running
// work uses the address, or if the place has another step. A later block at the place then gets the
// planned page, once that page is idle or free (`misplaced`).
bool Pool::want(PagePlace& place, Page& page) noexcept {
  if (place.blocks > 0 || place.step != Step::kNone) return false;
  if (place.page != nullptr) {
    if (!clocks_.completed(place.marks)) return false;
    places_.push_back(&place);
  }
  place.step = Step::kGetsPage;
  wanted_.push_back({.place = &place, .page = &page});
  return true;
}

void Pool::add_mapping(PagePlace& place, Page& page) noexcept {
  link(place, page);
  if (page.state != State::kFree) {
    stale_.push_back(place);
    return;
  }
  free_.remove(page);
  page.home = &place;
  become_idle(page);
}

// --- refused slots ------------------------------------------------------------------------------

void Pool::missed_slots(std::size_t pages) noexcept {
  if (!properties_.aliases) return;
  const std::lock_guard guard(state_);
  if (held_before_ == 0) held_before_ = held_;
  tries_ = heuristics_.most_arrangements;
  beyond_ = pages;
  lately_ = occupied_;
}

void Pool::missed_for_good() noexcept {
  const std::lock_guard guard(state_);
  if (tries_ > 0) --tries_;
}

void Pool::nothing_missed() noexcept {
  {
    const std::lock_guard guard(state_);
    const std::size_t most = std::exchange(lately_, occupied_);
    beyond_ = 0;
    if (held_before_ == 0) return;
    // `highest_` may come from iterations in which other blocks occupied the memory of refused
    // slots. It becomes the peak of this iteration, in which no slot was refused.
    if (exact_) highest_ = most;
    if (tries_ > 0) --tries_;
  }
  clocks_.catch_up();
  for (;;) {
    Page* page = nullptr;
    {
      const std::lock_guard guard(state_);
      const bool enough = held_ <= std::max(held_before_, target());
      if (!enough) page = take_to_release(false);
      if (page == nullptr) {
        if (enough || tries_ == 0) held_before_ = 0;
        return;
      }
    }
    release(*page);
  }
}

bool Pool::has_to_give_back() noexcept {
  const std::lock_guard guard(state_);
  return held_before_ != 0 && tries_ > 0;
}

}  // namespace pgmo::pages
