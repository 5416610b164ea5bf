// Addresses of a plan: as many as its arena has bytes, with pages only where slots need them.
//
//     generation    1 counted          2 settled                3 counted            4 ...
//     slots         occupy / vacate    not counted              occupy / vacate
//                                 settle()            surrender: another user needs pages
//
// While all pages under its slots are mapped, the range is settled: the owner serves slots without
// a call. When others need pages, the range is surrendered. Its owner then lists the live slots
// once; all other pages are idle and may be taken. From then on slots are counted, until the owner
// settles the range again, for example at the start of an iteration.
//
// The owner reads `generation()` under its slot lock and passes it on, so that a delayed call is
// recognized.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pages/device.hpp"
#include "pages/window.hpp"

namespace pgmo::pages {

class PlannedRange;

class RangeOwner {
 public:
  virtual ~RangeOwner() = default;

  // Append the live slots of this range, then call `count_from_now_on`, both under the lock that
  // guards taking and freeing slots. The lock must not be held during a call of `Space`. May throw
  // std::bad_alloc before the call of `count_from_now_on`; the range then stays settled.
  virtual void list_living(PlannedRange& range, std::vector<Extent>& living) = 0;
};

class PlannedRange {
 public:
  PlannedRange(Extent where, Stream stream, RangeOwner& owner)
      : where_(where), stream_(stream), owner_(&owner) {}

  Extent where() const noexcept { return where_; }
  Stream stream() const noexcept { return stream_; }
  RangeOwner& owner() const noexcept { return *owner_; }

  std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }
  static bool fully_mapped(std::uint64_t generation) noexcept { return generation % 2 == 0; }
  bool fully_mapped() const noexcept { return fully_mapped(generation()); }

  // Return whether the plan shares some of its pages with ranges of other streams. Its slots are
  // then always counted.
  bool shares_pages() const noexcept { return shares_pages_.load(std::memory_order_acquire); }

  // Start counting slots. Only the owner calls this, in `list_living`.
  void count_from_now_on() noexcept { generation_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  friend class Space;

  void settled() noexcept { generation_.fetch_add(1, std::memory_order_acq_rel); }

  Extent where_;
  Stream stream_;
  RangeOwner* owner_;
  std::vector<Extent> settled_;   // extents of its slots while it is settled
  int unsettled_ = 0;             // consecutive iterations that lacked pages
  std::uint64_t settled_at_ = 0;  // iteration of the last `settle`
  int early_surrenders_ = 0;      // consecutive surrenders right after a `settle`
  int iterations_to_count_ = 0;   // iterations for which it is not settled after early surrenders
  std::atomic<std::uint64_t> generation_{1};
  std::atomic<bool> shares_pages_{false};
};

// One physical page, by plan: a page of each of these ranges, counted from the range's begin. While
// the plan is followed, blocks never live on two of them at once.
struct SharedPlace {
  PlannedRange* range;
  std::size_t page;
};
using SharedPage = std::vector<SharedPlace>;

}  // namespace pgmo::pages
