// The addresses of one arena of a plan. Only slots in use need pages.
//
//     generation    1 counted          2 settled                3 counted            4 ...
//     slots         occupy / vacate    not counted              occupy / vacate
//                                 settle()            surrender: another user needs pages
//
// A range is *settled* if all pages under its slots are mapped and stay mapped. The owner of a
// settled range serves slots without calling the space. When other requests need pages, the space
// *surrenders* the range: the owner lists the live slots once, and all pages without a live slot
// become idle. From then on slots are counted, until the owner settles the range again. The engine
// settles ranges between two iterations.
//
// The owner reads `generation()` under its slot lock and passes it to `occupy` and `vacate`. So a
// call with an outdated generation has no effect.

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

  // Append the live slots of this range, then call `count_from_now_on`. Do both under the lock that
  // guards taking and freeing slots. The owner must not hold that lock while it calls `Space`. May
  // throw std::bad_alloc before `count_from_now_on`; if it does, the range stays settled.
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

  // Return whether a plan shares pages of this range with ranges of other streams. If so, the slots
  // of this range are always counted.
  bool shares_pages() const noexcept { return shares_pages_.load(std::memory_order_acquire); }

  // Start counting slots. Only the owner calls this, in `list_living`.
  void count_from_now_on() noexcept { generation_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  friend class Space;

  void settled() noexcept { generation_.fetch_add(1, std::memory_order_acq_rel); }

  // From now on, `Space::vacate` ignores slots that were freed before.
  void close() noexcept {
    generation_.fetch_add(2, std::memory_order_acq_rel);
    std::vector<Extent>().swap(settled_);
  }

  Extent where_;
  Stream stream_;
  RangeOwner* owner_;
  std::vector<Extent> settled_;   // extents of the slots while the range is settled
  int unsettled_ = 0;             // consecutive iterations that lacked pages
  std::uint64_t settled_at_ = 0;  // iteration of the last `settle`
  int early_surrenders_ = 0;      // consecutive surrenders right after a `settle`
  int iterations_to_count_ = 0;   // iterations left in which `settle` refuses
  std::atomic<std::uint64_t> generation_{1};
  std::atomic<bool> shares_pages_{false};
};

// A place in a planned range. `page`: index of the page in the range.
struct SharedPlace {
  PlannedRange* range;
  std::size_t page;
};

// Places that share one physical page by plan. While the program follows the plan, blocks never
// live at two of these places at once.
using SharedPage = std::vector<SharedPlace>;

}  // namespace pgmo::pages
