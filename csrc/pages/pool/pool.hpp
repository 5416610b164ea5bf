// The pages of a device: given to whoever needs them, taken from where they idle.
//
//     request    v4 v5 v6 v7                      on stream 1
//                │  │  ┊  ┊
//                #  #  ┊  └┄▶ created, while the pool holds less than the highest occupancy,
//                      ┊      or when nothing idles
//                      └┄┄┄┄▶ taken: a free page, or one that idles elsewhere (it stays mapped
//                      there)
//
// Which page may be taken: one whose last use was on the same stream at once, since the stream's
// order makes what it holds consistent; one of another stream when that use is completed, or behind
// an event. A place is unmapped only when the last use through it is completed, and nobody waits
// for that on the host: a page is mapped at a second address and the first mapping left as it is.
// An address whose mapping is in the way and cannot be removed yet is *blocked*; the window finds
// others.
//
// Two locks. `work` is held by a thread that makes calls of the device, one at a time; `state`
// guards everything here and is never held during such a call. A request that finds its pages takes
// `state` alone, as does every free. In between, pages and places that are worked on are marked as
// such, and whoever needs just these waits for `work`.

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

// Ranges whose pages nobody counts and whose owners can say what lives there.
class Uncounted {
 public:
  virtual ~Uncounted() = default;

  // Has all of them counted, so that what idles there is known. True: there were some. `work` is
  // held.
  virtual bool surrender() noexcept = 0;
};

class Pool {
 public:
  // The heuristics outlive the pool.
  Pool(DeviceDriver& device, const DeviceProperties& properties, const Heuristics& heuristics)
      : device_(device), properties_(properties), heuristics_(heuristics) {}

  std::mutex& work() noexcept { return work_; }
  std::mutex& state() noexcept { return state_; }
  Clocks& clocks() noexcept { return clocks_; }
  Meter& meter() noexcept { return meter_; }
  void ask_before_growing(Uncounted& others) noexcept { uncounted_ = &others; }

  // --- `state` is held ---------------------------------------------------------------------------

  // A block begins to live here, if that needs no call of the device; all places or none.
  bool enter(Places places, Stream stream) noexcept;

  // A block has gone. What is done behind these marks is over, then.
  void leave(Places places, const Marks& marks) noexcept;

  // Notes that another process may have the pages of a living block: none of them sleeps until no
  // block lives there. False: nothing lives there.
  bool share(Places places) noexcept;

  // Calls `visit` with the handle of each page that another process may have.
  template <typename Visit>
  void for_each_shared(Visit&& visit) const {
    for (const Page& page : pages_) {
      if (page.state == Page::State::kUsed && page.home->shared) visit(page.handle);
    }
  }

  // Keeps the pages of a living block where they are for good. False: they are being worked on.
  bool pin(Places places) noexcept;

  // So many blocks at this place are all that live there: their page may go once it is asleep.
  // False: others do, or another process has it. Throws std::bad_alloc.
  bool lie_down(PagePlace& place, std::uint32_t blocks, Sleep sleep);

  // Whether a block came to live on another page than its plan has there, since this was asked
  // last. Two places may have each other's page, and each is used whenever the other could change.
  bool take_strayed() noexcept { return std::exchange(strayed_, false); }

  // From now on pages are created as if there had never been more than there are now.
  void forget_peak() noexcept;

  // Of a planned range whose places are all used, and from now on used as a whole, however many
  // blocks come and go there. Meanwhile the occupancy is no measure. `work` is held as well.
  void hold(Places places) noexcept;
  void began_to_hold() noexcept;  // all of a range

  // Ends that: first each living block is counted, then the range is let go of.
  void count(Places places) noexcept;
  void let_go(Places places, const Marks& marks) noexcept;
  void ceased_to_hold() noexcept;

  PageStatistics statistics() const noexcept;
  void reset_peaks() noexcept;

  // --- both are held -----------------------------------------------------------------------------

  // Begins what `provide` ends. False, and nothing has changed: some places are blocked. Throws
  // std::bad_alloc, likewise. At most one request is in between. Where the request may have other
  // addresses, places whose last users it would wait for are blocked, too, if there are other pages
  // for it: to wait is as safe, but streams that run side by side would no longer do so.
  enum class Waits { kHere, kRatherElsewhere };
  bool admit(Places places, Stream stream, std::vector<Extent>& blocked,
             Waits waits = Waits::kHere);

  // Ends it without pages.
  void dismiss(Places places) noexcept;
  bool needs_pages() const noexcept { return !needs_.empty(); }

  // Whether so many pages can be created without more than `beyond` above the highest occupancy.
  bool has_room(std::size_t pages, std::size_t beyond) const noexcept {
    return held_ + pages <= std::min({highest_ + beyond, limit_, properties_.most_pages});
  }

  // --- `work` is held, `state` is not ------------------------------------------------------------

  // Everything that is missing under the places that were admitted. False: the card is full, or the
  // device refuses; nobody lives there then. `beyond`: pages that may be held above the target
  // before idle ones are taken.
  bool provide(Places places, Stream stream, std::size_t beyond = 0) noexcept;

  // Pages that an arrangement may create: none if more than so many are missing, and none once so
  // many are held beyond the highest occupancy. What idles elsewhere at the moment comes back.
  struct Growth {
    std::size_t most_missing = 0;
    std::size_t beyond = 0;
  };

  // Each entry: places that are to have one page. Maps them so; a mapping that is in the way goes
  // if its last use is completed. Takes pages that idle, and creates some: with one too few, some
  // would go from address to address in each iteration. False: some have no page yet, or rest.
  // Throws std::bad_alloc.
  //
  // Where a program submits whole iterations ahead of the device, what is used in each of them is
  // never found completed. Such places rest, that is, serve nobody, until it is.
  enum class InUse : std::uint8_t { kStays, kRests };
  bool arrange(const std::vector<std::vector<PagePlace*>>& plan, const Growth& growth,
               InUse in_use);

  // Slots have been refused, iteration after iteration: what was requested instead lay on the pages
  // of other slots, which were refused for that. Until `nothing_missed` there are so many pages
  // beyond the highest occupancy, as far as the card has them. At most a few: all that were refused
  // could be most of what the program has. Slots that still lack pages map them, as windows do.
  void missed_slots(std::size_t pages) noexcept;

  // Some are refused all the same, and no pages more are created for them.
  void missed_for_good() noexcept;

  // Those go back to the device once their last use is completed, down to what iterations occupy
  // that follow their plan. Until then, or for a while, there is something to give back.
  void nothing_missed(bool followed) noexcept;
  bool has_to_give_back() noexcept;

  // Releases the pages of all that has lain down; returns how many bytes they were. Nothing may run
  // that uses them.
  Bytes fall_asleep(Sleep sleep) noexcept;

  // What has lain down goes on as if it had not, and what wakes as if it had never slept.
  void get_up(Sleep sleep) noexcept;

  // Pages for what is asleep, wherever they have been: before anything is written there the device
  // has to be waited for. Returns the places whose blocks still live, by address: nobody else comes
  // there before it gets up. False: there are too few, and all of it sleeps on. Throws
  // std::bad_alloc, likewise.
  bool wake(Sleep sleep, std::vector<Address>& places);

  // Releases so many bytes of pages that nobody uses, as far as there are. Returns how many.
  Bytes give_back(Bytes bytes) noexcept;

  // Pages are not created beyond it. Returns what is held beyond it now.
  Bytes limit(Bytes bytes) noexcept;

  // Whether all is as it has to be, whatever is in between. `state` is held.
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
  void use_twins(Stream stream) noexcept;
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
  // Whether blocks live at all of them, and no thread works on one.
  static bool live(Places places) noexcept;

  void unmap(std::span<PagePlace* const> places) noexcept;
  void link(PagePlace& place, Page& page) noexcept;
  void touch(Page& page) noexcept;
  void unlink(PagePlace& place) noexcept;
  void find_home(Page& page) noexcept;
  void clear(PagePlace& place) noexcept;

  // Far more than the blocks that touch a place.
  static constexpr std::uint32_t kHold = 1u << 20;

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
  List<Page> idle_;        // the one that has idled longest first
  List<Page> gone_;        // records without a page
  List<PagePlace> stale_;  // likewise
  std::size_t held_ = 0;
  std::size_t untouched_ = 0;  // of these, pages that were never mapped
  std::size_t occupied_ = 0;
  std::size_t highest_ = 0;  // of `occupied_`, ever
  std::size_t limit_ = ~std::size_t{0};
  std::size_t held_ranges_ = 0;
  std::uint64_t arrangement_ = 0;  // number of the last
  bool exact_ = true;              // no range is held
  bool strayed_ = false;
  std::size_t beyond_ = 0;       // pages for slots that were refused
  std::size_t held_before_ = 0;  // without those
  std::size_t lately_ = 0;       // the highest of `occupied_` in this iteration
  int tries_ = 0;                // left to give those back
  PageStatistics numbers_;
  Meter meter_;

  struct Sleeping {
    PagePlace* place;
    Sleep sleep;
    bool wakes =
        false;  // its page is there, and its contents may not be: one block more is counted
  };
  std::map<Address, Sleeping> asleep_;  // with those that have lain down

  std::vector<Need> wanted_;  // mappings, by an arrangement

  // Of the request that is worked on.
  std::vector<Need> needs_;
  std::vector<PagePlace*> places_;  // to be unmapped
  std::size_t found_ = 0;           // needs that have a page
  bool refused_ = false;            // the device would not map them, or give access
  LatestUses waits_;
};

}  // namespace pgmo::pages
