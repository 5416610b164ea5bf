// The pages of a device. They go to requests, and are taken from where they are idle.
//
//     request    v4 v5 v6 v7                      on stream 1
//                │  │  ┊  ┊
//                #  #  ┊  └┄▶ created, while the pool holds less than the highest occupancy,
//                      ┊      or when no page is idle
//                      └┄┄┄┄▶ taken: a free page, or one that is idle elsewhere (it stays
//                             mapped there)
//
// A page whose last use was on the same stream may be taken at once, because the stream's order
// keeps its content consistent. A page of another stream may be taken when that use is completed,
// or behind an event. A place is unmapped only when the last use through it is completed. The host
// never waits for that: the page is mapped at a second address and the first mapping stays. An
// address is *blocked* if a mapping there is in the way and cannot be removed yet; the window finds
// others.
//
// Two locks. `work` is held by the one thread that makes device calls. `state` guards all members
// and is never held during a device call. A request that finds its pages takes only `state`, as
// does every free. In between, pages and places in progress are marked; requests that need them
// wait for `work`.

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

// Ranges whose slots are not counted, but whose owners can list the live ones.
class Uncounted {
 public:
  virtual ~Uncounted() = default;

  // Make all ranges count their slots, so that idle pages become known. Return whether there were
  // any. Requires `work`.
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

  // Add a block to these places, if no device call is needed: to all or to none.
  bool enter(Places places, Stream stream) noexcept;

  // Remove a block from these places. Its last uses are completed once these marks are.
  void leave(Places places, const Marks& marks) noexcept;

  // Note that another process may have the pages of a live block: they do not sleep until no block
  // lives there. Return false if no block lives there.
  bool share(Places places) noexcept;

  // Call `visit` with the handle of each page that another process may have.
  template <typename Visit>
  void for_each_shared(Visit&& visit) const {
    for (const Page& page : pages_) {
      if (page.state == Page::State::kUsed && page.home->shared) visit(page.handle);
    }
  }

  // Keep the pages of a live block in place until `unpin`. Return false if a thread is working on
  // them.
  bool pin(Places places) noexcept;

  // Unpin a place if no block lives there any more.
  void unpin(PagePlace& place) noexcept;

  // Prepare a place for sleep if only these blocks live there; `fall_asleep` then releases its
  // page. Return false if others live there too, or another process has the page. Throws
  // std::bad_alloc.
  bool lie_down(PagePlace& place, std::uint32_t blocks, Sleep sleep);

  // Return whether a block was placed on another page than planned since the last call. Two places
  // may have each other's page, and each may be in use whenever the other could change.
  bool take_strayed() noexcept { return std::exchange(strayed_, false); }

  // Forget the highest occupancy: the current one limits page creation from now on.
  void forget_peak() noexcept;

  // Hold the places of a planned range, all of which are used, as a whole: its blocks are no longer
  // counted, so the occupancy is inexact meanwhile. Requires `work`, too. Call `count_held_range`
  // once, after all places of the range.
  void hold(Places places) noexcept;
  void count_held_range() noexcept;

  // End this: first count each live block, then let go of the range.
  void count(Places places) noexcept;
  void release_held(Places places, const Marks& marks) noexcept;
  void uncount_held_range() noexcept;

  PageStatistics statistics() const noexcept;
  void reset_peaks() noexcept;

  // --- requires both locks ----------------------------------------------------------------------

  // Start the request that `provide` completes; at most one may be in progress. Return false, and
  // change nothing, if places are blocked; also when it throws std::bad_alloc. With
  // kRatherElsewhere, places whose last users are still running are blocked too, if other pages are
  // available: waiting is safe, but would serialize streams that run concurrently.
  enum class Waits { kHere, kRatherElsewhere };
  bool admit(Places places, Stream stream, std::vector<Extent>& blocked,
             Waits waits = Waits::kHere);

  // Cancel the request.
  void dismiss(Places places) noexcept;
  bool needs_pages() const noexcept { return !needs_.empty(); }

  // Return whether this many pages can be created with at most `beyond` above the highest
  // occupancy.
  bool has_room(std::size_t pages, std::size_t beyond) const noexcept {
    return held_ + pages <= std::min({highest_ + beyond, limit_, properties_.most_pages});
  }

  // --- requires `work`, without `state` ---------------------------------------------------------

  // Provide all missing pages of the admitted places. Return false if the card is full or the
  // device refuses; no block lives there then. `beyond`: pages that may be held above the target
  // before idle ones are taken.
  bool provide(Places places, Stream stream, std::size_t beyond = 0) noexcept;

  // Limits on pages that an arrangement may create: none if more than `most_missing` are missing;
  // at most `beyond` above the highest occupancy. Pages that are idle elsewhere now will be
  // available again.
  struct Growth {
    std::size_t most_missing = 0;
    std::size_t beyond = 0;
  };

  // Map one page at all places of each entry. A mapping in the way is removed if its last use is
  // completed. Pages are taken from idle ones, and some are created: with one too few, pages would
  // change address in each iteration. Return false if entries lack a page or places rest. Throws
  // std::bad_alloc.
  //
  // If a program submits whole iterations ahead of the device, the last use of some places is never
  // completed. With kAwaitsPage, such places serve no request until it is.
  enum class InUse : std::uint8_t { kStays, kAwaitsPage };
  bool arrange(const std::vector<std::vector<PagePlace*>>& plan, const Growth& growth,
               InUse in_use);

  // Allow this many pages beyond the highest occupancy until `nothing_missed`. Called when slots
  // were refused in consecutive iterations, because other blocks occupied their pages. Keep it
  // small: the refused slots could be most of the program's memory. Slots that still lack pages map
  // them like windows.
  void missed_slots(std::size_t pages) noexcept;

  // Note that slots were refused again; no more pages are created for them.
  void missed_for_good() noexcept;

  // Return those extra pages to the device once their last use is completed, down to the occupancy
  // of iterations in which no slot missed a page. `has_to_give_back` returns true until that is
  // done or has been tried for long enough.
  void nothing_missed() noexcept;
  bool has_to_give_back() noexcept;

  // Release the pages of all places prepared for this sleep; return their bytes. No running work
  // may use them.
  Bytes fall_asleep(Sleep sleep) noexcept;

  // End a sleep: of places still prepared, as if it had never begun; of woken ones, after `wake`.
  void get_up(Sleep sleep) noexcept;

  // Provide pages, with any content, for sleeping places. Wait for the device before writing there.
  // Append the places that still have live blocks; no other block can enter them until `get_up`.
  // Return false if there are too few pages, or throw std::bad_alloc; all of them then keep
  // sleeping.
  bool wake(Sleep sleep, std::vector<Address>& places);

  // Release up to this many bytes of unused pages. Return the bytes released.
  Bytes give_back(Bytes bytes) noexcept;

  // Create no pages beyond this many bytes. Return the bytes held beyond it now.
  Bytes limit(Bytes bytes) noexcept;

  // Return whether the invariants hold, even during a request. Requires `state`.
  bool consistent() const noexcept;

 private:
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
  bool wake_with_pages() noexcept;

  // arrangement.cpp
  void claim_pages(const std::vector<std::vector<PagePlace*>>& plan,
                   std::vector<Page*>& pages) noexcept;
  void create_for(std::vector<Page*>& pages, const Growth& growth) noexcept;
  static bool belongs(const Page& page, const PagePlace& place) noexcept;
  bool want(PagePlace& place, Page& page) noexcept;
  void add_mapping(PagePlace& place, Page& page) noexcept;

  // supply.cpp
  std::size_t target() const noexcept;
  bool spares(std::size_t count, Stream stream) const noexcept;
  bool find_pages(Stream stream, std::size_t beyond = 0) noexcept;
  bool find_enough(Stream stream, std::size_t beyond = 0) noexcept;
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
  void release(Page& page) noexcept;

  // mapping.cpp
  void clear_places() noexcept;
  bool map() noexcept;
  void commit(Places places, Stream stream) noexcept;
  void roll_back(Places places) noexcept;
  void abandon_needs() noexcept;
  void sweep() noexcept;
  // Return whether blocks live at all of the places, and no thread works on one.
  static bool live(Places places) noexcept;

  void unmap(std::span<PagePlace* const> places) noexcept;
  void link(PagePlace& place, Page& page) noexcept;
  void touch(Page& page) noexcept;
  void unlink(PagePlace& place) noexcept;
  void find_home(Page& page) noexcept;
  void clear(PagePlace& place) noexcept;

  // Block count of a place while it is held as a whole; far above any real number of blocks.
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
  List<Page> idle_;        // the longest idle one first
  List<Page> gone_;        // records without a page
  List<PagePlace> stale_;  // the oldest first
  std::size_t held_ = 0;
  std::size_t untouched_ = 0;  // of `held_`, pages never mapped for a block
  std::size_t occupied_ = 0;
  std::size_t highest_ = 0;  // highest `occupied_` ever
  std::size_t limit_ = ~std::size_t{0};
  std::size_t held_ranges_ = 0;
  std::uint64_t arrangement_ = 0;  // number of the last arrangement
  bool exact_ = true;              // whether no range is held as a whole
  bool strayed_ = false;
  std::size_t beyond_ = 0;       // extra pages for slots that were refused
  std::size_t held_before_ = 0;  // `held_` before these; 0: none to give back
  std::size_t lately_ = 0;       // highest `occupied_` in this iteration
  int tries_ = 0;                // attempts left to give the extra pages back
  PageStatistics numbers_;
  Meter meter_;

  struct Sleeping {
    PagePlace* place;
    Sleep sleep;
    // Its page is mapped but its content may be missing; one extra block is counted.
    bool wakes = false;
  };
  std::map<Address, Sleeping> asleep_;  // including those only prepared for sleep

  std::vector<Need> wanted_;  // mappings requested by an arrangement

  // State of the request in progress.
  std::vector<Need> needs_;
  std::vector<PagePlace*> places_;  // to be unmapped
  std::size_t found_ = 0;           // number of needs that have a page
  bool refused_ = false;            // the device refused to map or grant
  LatestUses waits_;
};

}  // namespace pgmo::pages
