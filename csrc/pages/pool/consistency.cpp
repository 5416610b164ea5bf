// Invariants of pages and places, see page.hpp. Only assertions call this.

#include <array>

#include "pages/pool/pool.hpp"

namespace pgmo::pages {
namespace {

// Return whether all mappings refer to the page and its home is one of them.
bool has_valid_mappings(const Page& page) noexcept {
  bool home = page.home == nullptr;
  for (const PagePlace* place = page.places; place != nullptr; place = place->another) {
    if (place->page != &page) return false;
    home = home || place == page.home;
  }
  return home;
}

// Return whether the page's fields match its state.
bool matches_its_state(const Page& page) noexcept {
  switch (page.state) {
    case Page::State::kGone:
    case Page::State::kFree:
      return page.home == nullptr && page.places == nullptr;
    case Page::State::kIdle:  // a request may be replacing the page at its home
      return page.home != nullptr &&
             (page.home->blocks == 0 || page.home->step == PagePlace::Step::kGetsPage);
    case Page::State::kUsed:
      return page.home != nullptr && page.home->blocks > 0;
    case Page::State::kMoving:
      return true;
  }
  return false;
}

}  // namespace

bool Pool::consistent() const noexcept {
  std::array<std::size_t, 5> pages{};
  for (const Page& page : pages_) {
    if (!has_valid_mappings(page) || !matches_its_state(page)) return false;
    ++pages[static_cast<std::size_t>(page.state)];
  }
  const auto count = [&](Page::State state) { return pages[static_cast<std::size_t>(state)]; };
  return free_.size() == count(Page::State::kFree) && idle_.size() == count(Page::State::kIdle) &&
         held_ == pages_.size() - count(Page::State::kGone);
}

}  // namespace pgmo::pages
