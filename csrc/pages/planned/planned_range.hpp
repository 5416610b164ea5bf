// Addresses of a plan: as many as its arena has bytes, with pages where slots need them.
//
//     generation    1 counted          2 settled                3 counted            4 ...
//     slots         occupy / vacate    nobody is told           occupy / vacate
//                                 settle()            surrender: somebody needs pages
//
// While all pages that its slots cover are there the owner serves them without asking. When others
// need pages the range is surrendered: its owner says, once, what lives there; the rest is idle and
// may be taken. From then on slots are counted, until the owner has it settled again, as at the
// beginning of an iteration.
//
// The owner reads `generation()` under the lock under which it takes and frees slots and hands it
// on, so that a call that comes late is known as such.

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

  // Adds the slots that live in this range, then calls `count_from_now_on`, both under the lock
  // under which slots are taken and freed. The lock must not be held during a call of `Space`. May
  // throw std::bad_alloc as long as it has not made that call; the range goes on as it was, then.
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

  // Some of its pages are also those of other streams' ranges, by plan: its slots are always
  // counted.
  bool shares_pages() const noexcept { return shares_pages_.load(std::memory_order_acquire); }

  // For the owner, in `list_living`.
  void count_from_now_on() noexcept { generation_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  friend class Space;

  void settled() noexcept { generation_.fetch_add(1, std::memory_order_acq_rel); }

  Extent where_;
  Stream stream_;
  RangeOwner* owner_;
  std::vector<Extent> settled_;   // what its slots cover, while nobody counts them
  std::size_t used_pages_ = 0;    // while they are counted: pages that slots lie on
  Bytes used_bytes_ = 0;          // and the bytes of these slots
  int unsettled_ = 0;             // iterations in a row that followed the plan and lacked pages
  std::uint64_t settled_at_ = 0;  // iteration
  int hasty_ = 0;                 // times in a row that it was surrendered at once
  int rests_ = 0;                 // iterations in which it is not settled for that
  std::atomic<std::uint64_t> generation_{1};
  std::atomic<bool> shares_pages_{false};
};

// One page, by plan: a page of each of these ranges, counted from where the range begins. Blocks
// never live on two of them at once, as long as the plan is followed.
struct Twin {
  PlannedRange* range;
  std::size_t page;
};
using SharedPage = std::vector<Twin>;

}  // namespace pgmo::pages
