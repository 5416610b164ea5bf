// All pages of a device. A request gets free pages, idle pages or new pages.
//
//     request    v4 v5 v6 v7                      on stream 1
//                │  │  ┊  ┊
//                #  #  ┊  └┄▶ created, while the pool holds less than the highest occupancy,
//                      ┊      or when no page is idle
//                      └┄┄┄┄▶ taken: a free page, or one that is idle elsewhere (it stays
//                             mapped there)
//
// A page that was last used on the same stream may be taken at once: a stream runs its work in
// order. A page that was last used on another stream may be taken once that use is completed.
// Before that, the new stream must wait for an event. A place is unmapped only when the last use
// through it is completed. The host never waits for a use: instead, the page is mapped at a second
// address, and the first mapping stays. An address is *blocked* if another page is mapped there and
// cannot be unmapped yet. The window then chooses another address.
//
// There are two locks. A thread holds `work` while it creates, maps or unmaps pages. `state` guards
// the pages and places; it is never held during a call of the driver. A request that needs no
// device call takes only `state`, and so does every free. While a thread works without `state`, its
// pages are `kMoving` and its places have a `step`. Requests for these pages or places wait for
// `work`.

#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "heuristics.hpp"
#include "pages/device.hpp"
#include "pages/meter.hpp"
#include "pages/pool/clocks.hpp"
#include "pages/pool/list.hpp"
#include "pages/pool/page.hpp"
#include "pages/statistics.hpp"

namespace pgmo::pages {

// Settled ranges: their slots are not counted, but their owners can list the live slots.
class Uncounted {
 public:
  virtual ~Uncounted() = default;

  // Make all settled ranges count their slots again, so that the pool knows their idle pages.
  // Return whether any range was settled. Requires `work`.
  virtual bool surrender() noexcept = 0;
};

class Pool {
 public:
  // The device and the heuristics must outlive the pool.
  Pool(DeviceDriver& device, const DeviceProperties& properties, const Heuristics& heuristics)
      : device_(device), properties_(properties), heuristics_(heuristics) {}

  std::mutex& work() noexcept { return work_; }
  std::mutex& state() noexcept { return state_; }
  Clocks& clocks() noexcept { return clocks_; }
  Meter& meter() noexcept { return meter_; }
  void ask_before_growing(Uncounted& others) noexcept { uncounted_ = &others; }

  // --- requires `state` -------------------------------------------------------------------------

  // Add a block to these places. If this needs a device call, change nothing and return false.
  bool enter(Places places, Stream stream) noexcept;

  // Remove a block from these places. `marks`: the last uses of the block.
  void leave(Places places, const Marks& marks) noexcept;

  // Mark the pages of a live block as shared with other processes: they do not sleep while a block
  // lives there. Return false if a place has no block, or a thread works on it.
  bool share(Places places) noexcept;

  // Call `visit` with the handle of each page that another process may map.
  template <typename Visit>
  void for_each_shared(Visit&& visit) const {
    for (const Page& page : pages_) {
      if (page.state == Page::State::kUsed && page.home->shared) visit(page.handle);
    }
  }

  // Keep the pages of a live block mapped at these places until `unpin`. Return false if a place
  // has no block, or a thread works on it.
  bool pin(Places places) noexcept;

  // Unpin a place if no block lives there.
  void unpin(PagePlace& place) noexcept;

  // Prepare a place for sleep, so that `begin_sleep` releases its page. `blocks`: number of blocks
  // there that are to sleep. Return false if other blocks live there, another process may have the
  // page, or a thread works on the place. Throws std::bad_alloc.
  bool prepare_sleep(PagePlace& place, std::uint32_t blocks, Sleep sleep);

  // Return whether a block got another page than the planned one since the last call. For example,
  // two places may hold each other's planned page, and one of them is always in use.
  bool take_strayed() noexcept { return std::exchange(strayed_, false); }

  // Set the highest occupancy, up to which pages are created, to the current occupancy. Does
  // nothing while a range is held.
  void forget_peak() noexcept;

  // Hold places of a planned range as a whole. Each place must have a page. Blocks are no longer
  // counted there, so the occupancy is inexact until `uncount_held_range`. Call `count_held_range`
  // once after all places of a range are held. Requires `work`, too.
  void hold(Places places) noexcept;
  void count_held_range() noexcept;

  // Stop holding a range: first call `count` for each live block, then `release_held` for all
  // places, then `uncount_held_range` once.
  void count(Places places) noexcept;
  void release_held(Places places, const Marks& marks) noexcept;
  void uncount_held_range() noexcept;

  PageStatistics statistics() const noexcept;
  void reset_peaks() noexcept;

  // Return whether the invariants of page.hpp hold. They hold during a request, too.
  bool consistent() const noexcept;

  // --- requires both locks ----------------------------------------------------------------------

  // Start a request, which `provide` completes. At most one request may be in progress. If a place
  // is blocked, append all blocked places to `blocked`, change nothing else and return false. If
  // this throws std::bad_alloc, nothing has changed. With kRatherElsewhere, a place also counts as
  // blocked while other streams still use its page, if enough other pages are available. Waiting
  // for these streams would be safe, but would serialize streams that run concurrently.
  enum class Waits { kHere, kRatherElsewhere };
  bool admit(Places places, Stream stream, std::vector<Extent>& blocked,
             Waits waits = Waits::kHere);

  // Cancel the request.
  void dismiss(Places places) noexcept;
  bool needs_pages() const noexcept { return !needs_.empty(); }

  // Return whether the pool may create this many pages, within its limits and up to `beyond` pages
  // above the highest occupancy.
  bool has_room(std::size_t pages, std::size_t beyond) const noexcept {
    return held_ + pages <= std::min({highest_ + beyond, limit_, properties_.most_pages});
  }

  // --- requires `work`, without `state` ---------------------------------------------------------

  // Provide all missing pages of the admitted places. Return false, and cancel the request, if the
  // card is full or the device refuses. `beyond`: number of pages that may be created above the
  // highest occupancy before idle pages are taken.
  bool provide(Places places, Stream stream, std::size_t beyond = 0) noexcept;

  // Limits of the pages that an arrangement may create. It creates none if more than `most_missing`
  // pages are missing: most of these are only in use elsewhere. Otherwise the pool grows to at most
  // the plan's pages or the highest occupancy plus `beyond`, whichever is larger.
  struct Growth {
    std::size_t most_missing = 0;
    std::size_t beyond = 0;
  };

  // Map one page at all places of each entry of the plan. Does nothing without aliases. A mapping
  // in the way is removed if its last use is completed. Idle pages are taken first. Then pages are
  // created: if one were missing, pages would move in each iteration. Return false if an entry has
  // no page, a place awaits its page, or the device refuses. Throws std::bad_alloc.
  //
  // If a program submits whole iterations ahead of the device, some places are always in use. With
  // kAwaitsPage, a place in use serves no further request until its last use is completed.
  enum class InUse : std::uint8_t { kStays, kAwaitsPage };
  bool arrange(const std::vector<std::vector<PagePlace*>>& plan, const Growth& growth,
               InUse in_use);

  // Allow this many pages beyond the highest occupancy until `nothing_missed`. Called when slots
  // were refused in consecutive iterations, because other blocks occupied their pages. Pass a small
  // number: the refused slots may be most of the program's memory.
  void missed_slots(std::size_t pages) noexcept;

  // Record that slots were refused again, and that no more pages are allowed for them.
  void missed_for_good() noexcept;

  // Return extra pages to the device, once their last use is completed, down to the peak of
  // iterations in which no slot missed a page. `has_to_give_back` returns true until all extra
  // pages are returned or the attempts are used up.
  void nothing_missed() noexcept;
  bool has_to_give_back() noexcept;

  // Release the pages of all places prepared for this sleep. Return their bytes. No running work
  // may use these pages.
  Bytes begin_sleep(Sleep sleep) noexcept;

  // End the sleep at all places of this sleep that have a page: places that are only prepared, and
  // places that `wake` has mapped.
  void end_sleep(Sleep sleep) noexcept;

  // Map pages with arbitrary content at the sleeping places. Append to `places` the addresses of
  // places that still have live blocks; no other block can enter them until `end_sleep`. The caller
  // must wait for the device before it writes there. Return false if there are too few pages.
  // Throws std::bad_alloc. In both cases all places continue to sleep.
  bool wake(Sleep sleep, std::vector<Address>& places);

  // Release free pages, and idle pages whose last use is completed, until this many bytes are
  // released or no such page is left. Return the bytes released.
  Bytes give_back(Bytes bytes) noexcept;

  // Set the limit of the bytes of all pages. Return the bytes of pages above the limit now.
  Bytes limit(Bytes bytes) noexcept;

 private:
  using State = Page::State;
  using Step = PagePlace::Step;

  struct Need {
    PagePlace* place;
    Page* page = nullptr;
    bool mapped = false;
  };

  void note_peak() noexcept;
  bool adopt(PagePlace& place) noexcept;
  bool misplaced(const PagePlace& place) const noexcept;
  void drop(PagePlace& place) noexcept;
  void become_idle(Page& page) noexcept;
  void undo(PagePlace& place) noexcept;
  bool would_wait(Places places, Stream stream) const noexcept;

  // sleep.cpp
  void leave_sleeping(PagePlace& place, const Marks& marks) noexcept;
  Page* next_to_sleep(Sleep sleep, Address& from) noexcept;

  // arrangement.cpp
  void claim_pages(const std::vector<std::vector<PagePlace*>>& plan,
                   std::vector<Page*>& pages) noexcept;
  void create_for(std::vector<Page*>& pages, const Growth& growth) noexcept;
  static bool belongs(const Page& page, const PagePlace& place) noexcept;
  bool want(PagePlace& place, Page& page) noexcept;
  void add_mapping(PagePlace& place, Page& page) noexcept;

  // supply.cpp
  std::size_t target() const noexcept;
  bool has_spare_pages(std::size_t count, Stream stream) const noexcept;
  bool find_pages(Stream stream, std::size_t beyond = 0) noexcept;
  bool find_enough(Stream stream, std::size_t beyond) noexcept;
  std::size_t missing() const noexcept { return needs_.size() - found_; }
  void use_shared_places(Stream stream) noexcept;
  void use_free() noexcept;
  void use_free(Page& page) noexcept;
  void use_idle(Stream stream, std::size_t most) noexcept;
  bool may_use(const Page& page, Stream stream, bool behind_events) const noexcept;
  void use(Page& page, Stream stream) noexcept;
  Page* create() noexcept;
  bool surrender() noexcept;
  Page* idle_and_completed(bool claimed) noexcept;
  Page* take_to_release(bool claimed) noexcept;
  void release(Page& page) noexcept;

  // mapping.cpp
  void clear_places() noexcept;
  bool map() noexcept;
  void commit(Places places, Stream stream) noexcept;
  void roll_back(Places places) noexcept;
  void abandon_needs() noexcept;
  void sweep() noexcept;
  // Return whether a block lives at each of the places, and no thread works on any of them.
  static bool live(Places places) noexcept;

  void unmap(std::span<PagePlace* const> places) noexcept;
  void link(PagePlace& place, Page& page) noexcept;
  void touch(Page& page) noexcept;
  void unlink(PagePlace& place) noexcept;
  void find_home(Page& page) noexcept;
  void clear(PagePlace& place) noexcept;

  // Block count of a place in a range that is held as a whole. Far above any real number of blocks.
  static constexpr std::uint32_t kHold = 1u << 20;

  // Limits of pages inspected in a list, and of mappings removed by one sweep.
  static constexpr std::size_t kMostLooks = 4096;
  static constexpr std::size_t kMostSwept = 64;

  DeviceDriver& device_;
  const DeviceProperties properties_;
  const Heuristics& heuristics_;
  std::mutex work_;
  std::mutex state_;
  Clocks clocks_{device_, state_};
  Uncounted* uncounted_ = nullptr;

  std::deque<Page> pages_;
  List<Page> free_;
  List<Page> idle_;            // the longest idle page first
  List<Page> gone_;            // unused elements of `pages_`
  List<PagePlace> stale_;      // the oldest mapping first
  std::size_t held_ = 0;       // number of pages, without pages that are gone
  std::size_t untouched_ = 0;  // number of these pages that are `untouched`
  std::size_t occupied_ = 0;   // number of these pages that are used, or about to be used
  // Highest `occupied_` since `forget_peak`, or in the iteration before the last `nothing_missed`.
  // Not raised while a range is held.
  std::size_t highest_ = 0;
  std::size_t limit_ = ~std::size_t{0};  // maximum of `held_`
  std::size_t held_ranges_ = 0;          // number of ranges that are held as a whole
  std::uint64_t arrangement_ = 0;        // number of the last arrangement
  bool exact_ = true;                    // whether no range is held as a whole
  bool strayed_ = false;
  std::size_t beyond_ = 0;       // extra pages for slots that were refused
  std::size_t held_before_ = 0;  // `held_` before the extra pages; 0: none to give back
  std::size_t lately_ = 0;       // highest `occupied_` in this iteration
  int tries_ = 0;                // attempts left to give the extra pages back
  PageStatistics numbers_;
  Meter meter_;

  struct Sleeping {
    PagePlace* place;
    Sleep sleep;
    // The page is mapped again, but its content may be missing. One extra block is counted.
    bool wakes = false;
  };
  std::map<Address, Sleeping> asleep_;  // places asleep or prepared for sleep

  std::vector<Need> wanted_;  // mappings requested by an arrangement

  // State of the request in progress.
  std::vector<Need> needs_;
  std::vector<PagePlace*> places_;  // to be unmapped
  std::size_t found_ = 0;           // number of needs that have a page
  bool refused_ = false;            // the device refused to map or grant
  LatestUses waits_;
};

}  // namespace pgmo::pages
