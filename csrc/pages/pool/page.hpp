// Pages and the places where they are mapped.
//
//     places    [ v0 ][ v1 ][    ][ v3 ] ...        page-sized pieces of reserved addresses
//                 │     └──────┐     ┊
//     pages       # p0         # p1 ┄┘              p1 lives at v1 (its home); its mapping at v3 is
//                                                   stale: right again once p1 idles, in the way
//                                                   of other pages until its last use is completed
//
// A page is *used* while blocks lie on it, all of them at its home; *idle* while none does and it
// is still mapped; *free* when it is mapped nowhere; *moving* while a thread makes calls of the
// device for it; *gone* when the device has it back. Only idle and free ones are given to others. A
// place is *asleep* where blocks live and there is no page.

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
  // What a thread does here without holding the lock: everybody else keeps away.
  enum class Step : std::uint8_t {
    kNone,
    kGetsPage,
    kAwaitsOthers,  // the stream is made to wait for the page's last users
    kLosesPage,
    kBlocked,  // within one call
    kAsleep,   // or about to be: see sleep.cpp
  };

  explicit PagePlace(Address where) : address(where) {}

  bool stale() const noexcept;

  // Whether its page is here, or comes back without a call.
  bool has_page() const noexcept;

  Address address;
  Page* page = nullptr;          // that is mapped here
  PagePlace* another = nullptr;  // mapping of the page
  Page* due = nullptr;           // that is to be here, by plan
  PagePlace* twin = nullptr;     // round a ring of places that are to have one page, by plan
  Marks marks;                   // the last uses through these addresses, for unmapping
  std::uint32_t blocks = 0;      // that touch this place, what holds it for good counted in
  Step step = Step::kNone;
  bool pinned = false;
  bool rests = false;         // until it can have the page that is due
  bool shared = false;        // another process may have its page, as long as a block lives here
  PagePlace* prev = nullptr;  // in the list of stale ones
  PagePlace* next = nullptr;
};

struct Page {
  enum class State : std::uint8_t { kGone, kFree, kIdle, kUsed, kMoving };

  Handle handle = 0;
  State state = State::kGone;
  PagePlace* home = nullptr;         // where blocks lie, or did last
  PagePlace* places = nullptr;       // all mappings, through `another`
  Marks marks;                       // the last uses, wherever
  bool untouched = true;             // not mapped for any block yet
  std::uint64_t claimed = 0;         // number of the arrangement that has a use for it
  std::uint64_t looked = 0;          // number of the look that found it
  const PagePlace* found = nullptr;  // by that, for this place
  Page* prev = nullptr;              // in the list of free or of idle ones
  Page* next = nullptr;
};

inline bool PagePlace::stale() const noexcept {
  return page != nullptr && page->home != this;
}

inline bool PagePlace::has_page() const noexcept {
  return page != nullptr && (!stale() || page->state == Page::State::kIdle);
}

// Addresses that were reserved in one call, and their places, as far as they have been used.
struct Reservation {
  Address base;
  Bytes bytes;
  std::deque<PagePlace> places;
  std::optional<Stream> stream = std::nullopt;  // of a window
};

// The places under a range of addresses.
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
