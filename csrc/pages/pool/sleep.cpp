// Releases pages under live blocks. The caller saves and restores the pages' content.
//
//     blocks    [── a ──][── b ──]        [── a ──][── b ──]        [── a ──][── b ──]
//     places    [  ][  ][  ][  ]          [  ][  ][  ][  ]          [  ][  ][  ][  ]
//     pages      #   #   #   #             .   .   #   #             #   #   #   #
//                prepare_sleep: a          begin_sleep               wake, end_sleep
//
// Sleeping blocks keep their addresses, and may be freed. No other block can enter a sleeping
// place. A page is not released if other blocks live on it, too.

#include "pages/pool/pool.hpp"

namespace pgmo::pages {

bool Pool::prepare_sleep(PagePlace& place, std::uint32_t blocks, Sleep sleep) {
  const Page* const page = place.page;
  if (page == nullptr || page->home != &place || page->state != State::kUsed) return false;
  if (place.step != Step::kNone || place.shared) return false;
  if (place.blocks != blocks + static_cast<std::uint32_t>(place.pinned)) return false;
  asleep_.insert_or_assign(place.address, Sleeping{&place, sleep});
  place.step = Step::kAsleep;
  return true;
}

void Pool::end_sleep(Sleep sleep) noexcept {
  const std::lock_guard guard(state_);
  for (auto at = asleep_.begin(); at != asleep_.end();) {
    PagePlace& place = *at->second.place;
    if (at->second.sleep != sleep || place.page == nullptr) {
      ++at;
      continue;
    }
    if (at->second.wakes) drop(place);
    place.step = Step::kNone;
    at = asleep_.erase(at);
  }
}

Bytes Pool::begin_sleep(Sleep sleep) noexcept {
  Bytes released = 0;
  for (Address from = 0;;) {
    Page* page = nullptr;
    {
      const std::lock_guard guard(state_);
      page = next_to_sleep(sleep, from);
    }
    if (page == nullptr) break;
    release(*page);
    released += properties_.page;
  }
  return released;
}

// Return the page of the next place, at or above `from`, that is prepared for sleep and has a page.
// Return null if there is none.
Page* Pool::next_to_sleep(Sleep sleep, Address& from) noexcept {
  for (auto at = asleep_.lower_bound(from); at != asleep_.end(); ++at) {
    const Sleeping& one = at->second;
    Page* const page = one.place->page;
    from = at->first + 1;
    if (one.sleep != sleep || page == nullptr) continue;
    page->state = State::kMoving;
    --occupied_;
    return page;
  }
  return nullptr;
}

// Remove a block from a place that sleeps, is prepared for sleep, or wakes. Any thread may free
// such a block at any time. Requires `state`.
void Pool::leave_sleeping(PagePlace& place, const Marks& marks) noexcept {
  Page* const page = place.page;
  if (page != nullptr && page->state == State::kUsed) {  // only prepared for sleep, or waking
    page->marks.add(marks);
    drop(place);
  } else {
    --place.blocks;  // the page is released, or another thread is releasing it
  }
  if (place.blocks > 0) return;
  if (page == nullptr) meter_.asleep_change(-properties_.page);
  place.step = Step::kNone;
  asleep_.erase(place.address);
}

bool Pool::wake(Sleep sleep, std::vector<Address>& places) {
  clocks_.catch_up();
  needs_.clear();
  places_.clear();
  found_ = 0;
  waits_ = {};
  {
    const std::lock_guard guard(state_);
    std::size_t most = 0;
    for (const auto& [address, one] : asleep_) {
      if (one.sleep != sleep) continue;
      ++most;
      if (!one.wakes) needs_.push_back({.place = one.place});
    }
    places_.reserve(needs_.size());
    places.reserve(most);
    occupied_ += needs_.size();
    numbers_.requests_that_map += !needs_.empty();
  }
  bool found = find_pages(0);
  if (found) {
    clear_places();
    found = map();
  }
  if (!found) {
    abandon_needs();
    needs_.clear();
    return false;
  }
  const std::lock_guard guard(state_);
  for (const Need& need : needs_) {
    PagePlace& place = *need.place;
    Page& page = *need.page;
    if (page.home != nullptr) stale_.push_back(*page.home);
    const Marks last = place.marks;
    link(place, page);
    page.marks.add(last);
    page.home = &place;
    page.state = State::kUsed;
    if (place.blocks == 0) {  // freed while this thread searched for pages
      --occupied_;
      become_idle(page);
      continue;
    }
    ++place.blocks;  // keeps the page until its content is restored, even if all blocks are freed
    asleep_.find(place.address)->second.wakes = true;
  }
  for (const auto& [address, one] : asleep_) {
    if (one.sleep == sleep) places.push_back(address);
  }
  note_peak();
  needs_.clear();
  return true;
}

void Pool::forget_peak() noexcept {
  if (exact_) highest_ = occupied_;
}

}  // namespace pgmo::pages
