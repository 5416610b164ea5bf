// Segments of graphs' pools, whose pages may be mapped in several pools at once.
//
//     segment of pool A   [ p0 ][ p1 ][ p2 ]   a block survives on p2, so p2 is A's alone
//     segment of pool B   [ p0 ][ p1 ][ p3 ]   p3 is new, as no other page of A can be shared
//
// Addresses of a segment are never used by another pool while the segment exists. A place is one
// page of addresses. The lock of `Chains` guards everything here.

#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "adapters/cuda/graphs/driver.hpp"

namespace pgmo::graphs {

struct Chain;
struct GraphPage;

struct GraphPlace {
  Address address;
  Chain* chain;
  GraphPage* page = nullptr;
  bool own = false;            // no other pool may use the page, ever
  bool alive = false;          // a block lay here at the end of the last capture
  bool freed_outside = false;  // the program freed a block here between two captures
  bool undecided = false;      // alive or freed outside, since the last decision
  bool open = false;           // has contents that a later graph of the chain reads
  bool kept = false;           // was alive or freed outside, at the end of any capture

  // Return whether contents here are, or may be, read before the next replay writes them.
  bool has_contents() const noexcept { return open || undecided; }
};

// A physical page, and the places at which it is mapped.
struct GraphPage {
  Handle handle;
  std::vector<GraphPlace*> places;  // where it is mapped
  bool lent = false;                // given back to the device; its places are unmapped meanwhile

  bool shared() const noexcept { return places.size() > 1; }
};

struct Segment {
  Address base;
  std::vector<GraphPlace> places;
};

// Owner of the pages of one device. Chains own their segments. `page`: bytes of a page.
class Mappings {
 public:
  Mappings(Driver& driver, std::size_t page) : driver_(driver), page_(page) {}

  std::size_t page() const noexcept { return page_; }
  // `held` returns the number of pages that are not lent, `mapped` the number of places.
  std::size_t held() const noexcept { return pages_.size() - lent_; }
  std::size_t mapped() const noexcept { return mapped_; }

  // Return whether a segment begins, or once began, at the address.
  bool owns(Address base) const { return bases_.contains(base); }

  // Return a number that increases whenever a shared page gains, loses or exchanges a place.
  std::size_t version() const noexcept { return version_; }

  // Map a segment for a chain, of `bytes` rounded up to pages. Use the pages for which `may_share`
  // returns true, the oldest first, then new pages. Return nullptr if the device refuses.
  template <typename MayShare>
  std::unique_ptr<Segment> make(Chain& chain, std::size_t bytes, MayShare&& may_share) {
    const std::size_t count = (bytes + page_ - 1) / page_;
    const Address base = addresses(count);
    if (base == 0) return nullptr;
    auto segment = std::make_unique<Segment>(Segment{base, {}});
    segment->places.reserve(count);
    auto next = pages_.begin();
    for (std::size_t at = 0; at < count; ++at) {
      GraphPlace& place = segment->places.emplace_back(GraphPlace{base + at * page_, &chain});
      while (next != pages_.end() && (next->lent || !may_share(*next))) ++next;
      GraphPage* page = next != pages_.end() ? &*next++ : create();
      if (page == nullptr || !driver_.map(place.address, page->handle)) {
        if (page != nullptr) drop_unused(*page);
        segment->places.pop_back();
        remove(*segment);
        return nullptr;
      }
      link(place, *page);
    }
    if (driver_.grant(base, count * page_)) return segment;
    remove(*segment);
    return nullptr;
  }

  // Unmap a segment, and release the pages that are mapped nowhere else. Requires that all work
  // which uses the segment is completed.
  void remove(Segment& segment) {
    if (lent_ == 0 && !segment.places.empty()) {
      driver_.unmap(segment.base, segment.places.size() * page_);
    } else {
      for (const GraphPlace& place : segment.places) {
        if (!place.page->lent) driver_.unmap(place.address, page_);
      }
    }
    for (GraphPlace& place : segment.places) unlink(place);
    if (!segment.places.empty()) spare_[segment.places.size()].push_back(segment.base);
  }

  // Move a place and its contents to the oldest page for which `may_share` returns true. If there
  // is none, use a new page. Requires that all work of the device is completed. Return false if the
  // device is full or refuses. If so, the place keeps its page, unless `lost()`.
  template <typename MayShare>
  bool move(GraphPlace& place, MayShare&& may_share) {
    const auto found = std::find_if(pages_.begin(), pages_.end(), [&](const GraphPage& page) {
      return !page.lent && may_share(page);
    });
    GraphPage* const page = found != pages_.end() ? &*found : create();
    return page != nullptr && move_to(place, *page);
  }

  // Return the oldest page that is older than the place's page and for which `may_share` returns
  // true; null if there is none.
  template <typename MayShare>
  GraphPage* older_page(const GraphPlace& place, MayShare&& may_share) {
    const auto found = std::find_if(pages_.begin(), pages_.end(), [&](const GraphPage& page) {
      return &page == place.page || (!page.lent && may_share(page));
    });
    return &*found == place.page ? nullptr : &*found;
  }

  // Move a place to this page, as `move` does.
  bool move_to(GraphPlace& place, GraphPage& page) {
    if (place.has_contents() && !copy_to(page, place)) {
      drop_unused(page);
      return false;
    }
    driver_.unmap(place.address, page_);
    if (map_again(place, page)) {
      unlink(place);
      link(place, page);
      return true;
    }
    drop_unused(page);
    lost_ = lost_ || !map_again(place, *place.page);
    return false;
  }

  // Exchange the pages of two places. `place` keeps its contents; the contents of `other` are lost.
  // Requires that all work of the device is completed. Return false if the device refuses. If so,
  // both places keep their pages, unless `lost()`.
  bool exchange(GraphPlace& place, GraphPlace& other) {
    if (!driver_.copy(other.address, place.address, page_)) return false;
    driver_.unmap(place.address, page_);
    driver_.unmap(other.address, page_);
    GraphPage& first = *place.page;
    GraphPage& second = *other.page;
    const bool done = map_again(place, second);
    if (done && map_again(other, first)) {
      std::replace(first.places.begin(), first.places.end(), &place, &other);
      std::replace(second.places.begin(), second.places.end(), &other, &place);
      std::swap(place.page, other.page);
      ++version_;
      return true;
    }
    if (done) driver_.unmap(place.address, page_);
    lost_ = lost_ || !map_again(place, first) || !map_again(other, second);
    return false;
  }

  // Return whether `idle` returns true for any page that is not lent.
  template <typename Idle>
  bool any(Idle&& idle) const {
    return std::any_of(pages_.begin(), pages_.end(),
                       [&](const GraphPage& page) { return !page.lent && idle(page); });
  }

  // Give back to the device the pages for which `idle` returns true. Their places stay, unmapped,
  // until `restore`. Return the number of these pages. Requires that all work of the device is
  // completed.
  template <typename Idle>
  std::size_t lend(Idle&& idle) {
    std::size_t count = 0;
    for (GraphPage& page : pages_) {
      if (page.lent || !idle(page)) continue;
      for (const GraphPlace* place : page.places) driver_.unmap(place->address, page_);
      driver_.release(page.handle);
      page.lent = true;
      ++count;
    }
    lent_ += count;
    return count;
  }

  // If the page of a place is lent, create it again and map it at all its places. Return false if
  // the device is full or refuses.
  bool restore(const GraphPlace& place) {
    GraphPage& page = *place.page;
    if (!page.lent) return true;
    if (!driver_.create(page.handle)) return false;
    page.lent = false;
    --lent_;
    for (const GraphPlace* one : page.places) {
      if (!map_again(*one, page)) {
        lost_ = true;
        return false;
      }
    }
    return true;
  }

  bool any_lent() const noexcept { return lent_ != 0; }

  // Return whether the driver has refused to restore a mapping, so that a place lacks its page. No
  // graph may be replayed from then on.
  bool lost() const noexcept { return lost_; }

 private:
  // Return addresses for `count` pages: the addresses of a removed segment, or new addresses.
  // Return 0 if the driver refuses.
  Address addresses(std::size_t count) {
    std::vector<Address>& spare = spare_[count];
    if (spare.empty()) {
      const Address reserved = driver_.reserve(count * page_);
      if (reserved != 0) bases_.insert(reserved);
      return reserved;
    }
    const Address base = spare.back();
    spare.pop_back();
    return base;
  }

  GraphPage* create() {
    Handle handle = 0;
    if (!driver_.create(handle)) return nullptr;
    return &pages_.emplace_back(GraphPage{handle, {}});
  }

  // Copy a place's contents to another page, through a temporary mapping.
  bool copy_to(const GraphPage& page, const GraphPlace& place) {
    if (scratch_ == 0) scratch_ = driver_.reserve(page_);
    if (scratch_ == 0 || !driver_.map(scratch_, page.handle)) return false;
    const bool done =
        driver_.grant(scratch_, page_) && driver_.copy(scratch_, place.address, page_);
    driver_.unmap(scratch_, page_);
    return done;
  }

  // Map and grant a page at a place. If the driver refuses, the place is left unmapped.
  bool map_again(const GraphPlace& place, const GraphPage& page) {
    if (!driver_.map(place.address, page.handle)) return false;
    if (driver_.grant(place.address, page_)) return true;
    driver_.unmap(place.address, page_);
    return false;
  }

  void link(GraphPlace& place, GraphPage& page) {
    page.places.push_back(&place);
    place.page = &page;
    ++mapped_;
    if (page.shared()) ++version_;
  }

  void unlink(GraphPlace& place) {
    GraphPage& page = *place.page;
    if (page.shared()) ++version_;
    std::erase(page.places, &place);
    place.page = nullptr;
    --mapped_;
    drop_unused(page);
  }

  // Release the page if it has no place.
  void drop_unused(GraphPage& page) {
    if (!page.places.empty()) return;
    if (page.lent) {
      --lent_;
    } else {
      driver_.release(page.handle);
    }
    pages_.remove_if([&](const GraphPage& one) { return &one == &page; });
  }

  Driver& driver_;
  const std::size_t page_;
  std::list<GraphPage> pages_;                         // the oldest page first
  std::map<std::size_t, std::vector<Address>> spare_;  // removed segments, by number of pages
  std::set<Address> bases_;                            // addresses where segments ever began
  std::size_t mapped_ = 0;
  std::size_t version_ = 0;
  std::size_t lent_ = 0;  // number of lent pages
  Address scratch_ = 0;   // addresses of one page, for copies
  bool lost_ = false;
};

}  // namespace pgmo::graphs
