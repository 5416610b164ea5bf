// An unlimited range of addresses, from which best fit hands out ranges.
//
//     reserved   ▓▓▓▓░░▓▓▓▓▓░░░░░▓▓░░░░░░░░░░░░░░░░ ...        and more whenever no gap fits
//                    └2┘    └─5─┘  └─ the rest ─┘              a block of 2 goes into the gap of 2
//
// Addresses cost nothing, so the only aim is to touch few pages: best fit takes the smallest gap
// that fits, and the lowest of equal gaps. Adjacent gaps are joined.

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
  // Add addresses, which must not adjoin other ranges: `give` joins adjacent gaps. Throws
  // std::bad_alloc.
  void add(Extent range);

  // Return the address of the best fit, or 0. Takes nothing.
  Address find(Bytes bytes) const noexcept;

  // Fill `found` with the gaps that follow the best fit in order of size. Return their number.
  std::size_t find_others(Bytes bytes, std::span<Address> found) const noexcept;

  // Return the best fit outside of these sorted ranges, or 0. Inspects only kMostLooks gaps.
  Address find_outside(Bytes bytes, std::span<const Extent> ranges) const noexcept;

  // Return the lowest address at which this many bytes are free between the bounds, or 0.
  Address find_within(Bytes bytes, Address begin, Address end) const noexcept;

  // Take a range that lies in a gap. If it throws std::bad_alloc, nothing has changed.
  void take(Extent range);

  // Give back a range that was taken. `take` has reserved the memory for this.
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
  std::vector<Gap> spares_;  // at least one per taken range
  std::size_t taken_ = 0;
};

}  // namespace pgmo::pages
