// Addresses without end, of which best fit hands out ranges.
//
//     reserved   ▓▓▓▓░░▓▓▓▓▓░░░░░▓▓░░░░░░░░░░░░░░░░ ...        and more whenever no gap fits
//                    └2┘    └─5─┘  └─ the rest ─┘              a block of 2 goes into the gap of 2
//
// Addresses cost nothing, so the only aim is that few pages are touched: the smallest gap that
// fits, the lowest of several. Gaps that touch are one.

#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "pages/device.hpp"
#include "types.hpp"

namespace pgmo::pages {

class PageWindow {
 public:
  // Throws std::bad_alloc. What is added twice in a row is not joined: leave a hole behind.
  void add(Extent range);

  // Where a block fits best; 0: nowhere. Takes nothing.
  Address find(Bytes bytes) const noexcept;

  // Further places, from the next smallest gap on; how many there are.
  std::size_t find_others(Bytes bytes, std::span<Address> found) const noexcept;

  // The same, where no byte lies in ranges that are sorted and disjoint. Looks into a few gaps
  // only.
  Address find_outside(Bytes bytes, std::span<const Extent> ranges) const noexcept;

  // The lowest address within these bounds that a block may have; 0: none.
  Address find_within(Bytes bytes, Address begin, Address end) const noexcept;

  // A range that lies in a gap. Throws std::bad_alloc, and changes nothing then.
  void take(Extent range);

  // A range that was taken. What it needs has been set aside when it was.
  void give(Extent range) noexcept;

  std::size_t gaps() const noexcept { return by_address_.size(); }

 private:
  using ByAddress = std::map<Address, Bytes>;
  using BySize = std::set<std::pair<Bytes, Address>>;

  struct Gap {
    ByAddress::node_type place;
    BySize::node_type size;
  };

  static constexpr int kMostLooks = 8;

  static Gap make();
  Gap pull(ByAddress::iterator gap) noexcept;
  void put(Gap gap, Extent range) noexcept;
  Gap spare() noexcept;
  bool consistent() const noexcept;

  ByAddress by_address_;
  BySize by_size_;
  std::vector<Gap> spares_;  // at least one for each range that is taken
  std::size_t taken_ = 0;
};

}  // namespace pgmo::pages
