// Pages and the places where they are mapped.
//
//     places    [ v0 ][ v1 ][    ][ v3 ] ...        page-sized pieces of reserved addresses
//                 │     └──────┐     ┊
//     pages       # p0         # p1 ┄┘              p1 lives at v1, its home. Its mapping at v3 is
//                                                   stale: v3 can become the home once p1 is idle.
//                                                   No other page can be mapped at v3 until the
//                                                   last use through v3 is completed.
//
// A page is *used* while blocks lie on it, all of them at its home. It is *idle* while it is mapped
// and no block lies on it. It is *free* while it is mapped nowhere, and *moving* while a thread
// makes device calls for it. It is *gone* after it was returned to the device. Only idle and free
// pages may move to other places. A place is *asleep* if blocks live there without a page.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "pages/device.hpp"
#include "pages/pool/clocks.hpp"
#include "types.hpp"

namespace pgmo::pages {

struct Page;

struct PagePlace {
  // What a thread does at the place while it does not hold the pool's lock (pool.hpp). Meanwhile,
  // other threads may only free blocks at a place that is asleep, and not change the place else.
  enum class Step : std::uint8_t {
    kNone,
    kGetsPage,
    kAwaitsOthers,  // the request's stream will wait for the page's last users
    kLosesPage,
    kBlocked,  // only within one call of `admit`
    kAsleep,   // or prepared for sleep: see sleep.cpp
  };

  explicit PagePlace(Address where) : address(where) {}

  bool stale() const noexcept;

  // Return whether a page is mapped here whose home is, or can at once become, this place.
  bool has_page() const noexcept;

  Address address;
  Page* page = nullptr;               // mapped here
  PagePlace* another = nullptr;       // next mapping of the same page
  Page* planned_page = nullptr;       // the page planned for this place
  PagePlace* shared_place = nullptr;  // ring of places that share one page by plan
  Marks marks;                        // last uses through this address; it is unmapped after them
  std::uint32_t blocks = 0;           // number of blocks here, plus pins and holds (pool.hpp)
  Step step = Step::kNone;
  bool pinned = false;
  bool awaits_page = false;   // serves no slot until it can get its planned page
  bool shared = false;        // another process may hold its page while a block lives here
  PagePlace* prev = nullptr;  // in the list of stale places
  PagePlace* next = nullptr;
};

struct Page {
  enum class State : std::uint8_t { kGone, kFree, kIdle, kUsed, kMoving };

  Handle handle = 0;
  State state = State::kGone;
  PagePlace* home = nullptr;         // the place of its blocks; one of the places of an idle page
  PagePlace* places = nullptr;       // all mappings, linked by `another`
  Marks marks;                       // last uses through any address
  bool untouched = true;             // no request or arrangement has mapped it yet
  std::uint64_t claimed = 0;         // number of the last call of `Pool::arrange` that chose it
  std::uint64_t search = 0;          // number of the search that found it
  const PagePlace* found = nullptr;  // the place for which that search found it
  Page* prev = nullptr;              // in the list of free or idle pages
  Page* next = nullptr;
};

inline bool PagePlace::stale() const noexcept {
  return page != nullptr && page->home != this;
}

inline bool PagePlace::has_page() const noexcept {
  return page != nullptr && (!stale() || page->state == Page::State::kIdle);
}

// Addresses reserved in one call. `places` ends at the highest place that was ever asked for.
struct Reservation {
  Address base;
  Bytes bytes;
  std::deque<PagePlace> places;
  std::optional<Stream> stream = std::nullopt;  // stream of a window (window.hpp); none for a plan
  PoolNumber pool = 0;                          // pool that owns the window; 0: none
};

// The places under a range of addresses. Refers to the reservation, which must outlive it.
class Places {
 public:
  Places(Reservation& reservation, std::size_t first, std::size_t count)
      : reservation_(&reservation), first_(first), count_(count) {}

  std::size_t size() const noexcept { return count_; }
  PagePlace& operator[](std::size_t at) const noexcept { return reservation_->places[first_ + at]; }

  Places part(std::size_t first, std::size_t count) const noexcept {
    return {*reservation_, first_ + first, count};
  }

 private:
  Reservation* reservation_;
  std::size_t first_;
  std::size_t count_;
};

}  // namespace pgmo::pages
