// Memory for an allocator: addresses from windows and planned ranges, pages from one pool.
//
//     window, stream 0, small    ▓▓▓▓░▓▓░░░░...      best fit
//     window, stream 0, large    ▓▓▓▓▓▓▓▓░░░░...
//     window, stream 0, lasting  ▓▓▓▓▓▓░░░░░░...      what is there to stay
//     window, stream 1, large    ▓▓▓▓░░░░░░░░...
//     planned range A            ▓▓░░▓▓▓▓            offsets that a plan has chosen
//                                ││  ││
//     pages                      ##  ##
//
// Blocks of different streams never share addresses, hence no page while they live. A page that
// nothing lives on belongs to nobody: see pool.hpp.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "forks.hpp"
#include "heuristics.hpp"
#include "pages/device.hpp"
#include "pages/own_device.hpp"
#include "pages/planned/planned_range.hpp"
#include "pages/pool/pool.hpp"
#include "pages/window.hpp"

namespace pgmo::pages {

// All functions may be called from several threads.
class Space final : private Uncounted {
 public:
  explicit Space(DeviceDriver& device, const DeviceProperties& properties = {},
                 const Heuristics& heuristics = process_heuristics);
  ~Space() override = default;
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  // --- blocks ------------------------------------------------------------------------------------

  // 0: the card is full, or this thread is capturing and a page is missing. Work that still runs
  // may keep pages from being taken where aliases are off: synchronize, and try again.
  Address allocate(Bytes bytes, Stream stream) noexcept;

  // The stream is that of the free; it may be another than that of the block. False: no such block.
  bool deallocate(Address address, Stream stream) noexcept;

  // The same, freed on the block's own stream.
  bool deallocate(Address address) noexcept;

  // Another stream uses a block until it is freed; who lives there next waits for that stream.
  // False: no such block.
  bool use_block(Address address, Stream stream) noexcept;

  // Whether what is requested from now on is there to stay, as the state of an optimizer is. It has
  // windows of its own: among blocks that come and go each would keep a page for itself.
  void expect_lasting(bool on) noexcept { lasting_ = on; }

  // Keeps the pages under what lives there where they are for good: somebody else knows these
  // addresses, as a communication library or a graph does. False: not mapped.
  bool pin(Extent range) noexcept;

  // The same for all that lives, in windows and planned ranges.
  void pin_living() noexcept;

  // Keeps the pages under a living block there as long as it lives, for another process,
  // and lists them in their order. Returns where the first one begins; 0: nothing lives
  // there. Throws std::bad_alloc.
  Address share(Extent range, std::vector<Handle>& pages);

  // Calls `visit` with the handle of each page under such a block.
  template <typename Visit>
  void for_each_shared(Visit&& visit) {
    const std::lock_guard guard(pool_.state());
    pool_.for_each_shared(visit);
  }

  // Whether the address is one that was reserved here, whatever lies there.
  // What the program orders itself: see pool/program_order.hpp.
  void ordered(Clocks::Ordered what, std::uint32_t stream, std::uint64_t event) noexcept;

  bool owns(Address address) noexcept;

  // Calls `visit` with each living block of a window and its stream. The lock is held.
  template <typename Visit>
  void for_each(Visit&& visit) {
    const std::lock_guard guard(pool_.state());
    for (const auto& [address, block] : blocks_) visit(Extent{address, block.bytes}, block.stream);
  }

  // Calls `visit` with each run of pages, where blocks lie on them or did last, and its stream. The
  // lock is held.
  template <typename Visit>
  void for_each_run(Visit&& visit) {
    const std::lock_guard guard(pool_.state());
    for (const auto& [base, reservation] : reservations_) {
      if (reservation.stream)
        runs_in(reservation, {base, reservation.bytes},
                [&](Extent run) { visit(run, *reservation.stream); });
    }
    for (const auto& [address, range] : ranges_) {
      runs_in(*reservation_at(address), range->where(),
              [&](Extent run) { visit(run, range->stream()); });
    }
  }

  // The rounded size of a living block; 0: none.
  Bytes bytes_of(Address address) noexcept;

  // --- planned ranges ----------------------------------------------------------------------------

  // Addresses alone. nullptr: refused.
  PlannedRange* reserve_range(Bytes bytes, Stream stream, RangeOwner& owner) noexcept;

  // A slot is about to be used, or no longer is. Generations are those that the owner read when it
  // took or freed the slot; nothing happens for one in which slots are not counted. `occupy` is
  // false when pages are missing and cannot be had: the slot may not be used, and is not counted.
  // `users` are other streams that used the slot, one bit each. `thrifty`: the slot may
  // cost no call of the device, and not more pages than it has bytes for.
  bool occupy(PlannedRange& range, Extent slot, std::uint64_t generation,
              bool thrifty = false) noexcept;
  void vacate(PlannedRange& range, Extent slot, std::uint64_t generation,
              std::uint64_t users = 0) noexcept;

  // Stops counting, if all pages under these extents, which are disjoint and sorted, are there
  // already: all slots lie there until the range is counted again. Takes none, and creates none at
  // first. If iteration after iteration has `followed` its plan and a few are missing all the same,
  // these are created: with one too few each page would be taken from where it is needed next.
  bool settle(PlannedRange& range, std::vector<Extent> covered, bool followed = true) noexcept;

  // Counts the slots of all ranges of this owner again. False: the host has no memory for it.
  bool unsettle(const RangeOwner& owner) noexcept;

  // What a plan has found: these pages of this owner's ranges are to be one each, mapped in all of
  // them, so that they change hands without a call of the device. Takes the place of what was said
  // before. `more`: so many more than ever live at once, because the program itself orders the
  // streams that share one, and who got another one would wait longer than it does; nothing: it is
  // not known how they are ordered. Throws std::bad_alloc, and nothing is shared then.
  void share(const RangeOwner& owner, const std::vector<SharedPage>& pages,
             std::optional<std::size_t> more);

  // Maps them so, as far as pages idle and mappings that are in the way are no longer used; if that
  // has not been enough a few times, with as many pages more as are missing, or, where nobody knows
  // how streams are ordered, a few. Nothing happens unless a slot has missed a page since the last
  // call. `followed`: the owner's slots would have served the iteration, had they had their pages.
  void arrange(const RangeOwner& owner, bool followed) noexcept;

  // Whether the next call will have pages to give back, even if no slot misses one until then.
  bool has_to_give_back() noexcept { return pool_.has_to_give_back(); }

  // The addresses go back, and the range is gone; nothing may live there. False: something does.
  bool close_range(PlannedRange& range) noexcept;

  // --- sleep -------------------------------------------------------------------------------------

  // Pages on which none but these blocks live lie down: nobody comes to live there any more.
  // Returns the number of this sleep, and the pages as runs, whose contents the caller keeps; 0:
  // this thread is capturing. Of a slot its bytes are asked for. Throws std::bad_alloc, and
  // nothing has changed then.
  Sleep lie_down(std::span<const Extent> blocks, std::vector<Extent>& runs);

  // Their pages go back to the device; nothing may run that uses them. Returns how many bytes.
  Bytes fall_asleep(Sleep sleep) noexcept;

  // Instead of it: nothing has changed. And after `wake`, once contents are where they were.
  void get_up(Sleep sleep) noexcept;

  // Pages under the same addresses, of any content, and as runs those whose blocks still live:
  // until `get_up` nobody else comes there, whoever dies meanwhile. The device has to be waited for
  // before anything is written. False: there are too few pages, and all sleeps on. Throws
  // std::bad_alloc, likewise. Twice returns the same runs.
  bool wake(Sleep sleep, std::vector<Extent>& runs);

  // From now on pages that idle are taken before more are created than are in use now.
  void forget_peak() noexcept;

  // --- the device --------------------------------------------------------------------------------

  // Idle pages, for somebody else's growth. Returns what was released.
  Bytes give_back(Bytes bytes) noexcept;

  // Makes all that is mapped accessible once more, as for a device that has become a peer.
  void grant_again() noexcept;

  // No more pages than that; what idles beyond it goes back.
  void limit(Bytes bytes) noexcept;

  Bytes page() const noexcept { return properties_.page; }
  PageStatistics statistics() noexcept;
  void reset_peaks() noexcept;
  Meter& meter() noexcept { return pool_.meter(); }

 private:
  struct Block {
    Bytes bytes;
    PageWindow* window;
    std::uint64_t users;  // streams, one bit each
    Stream stream;
  };

  enum Kind : std::uint8_t { kSmall, kLarge, kLasting, kKinds };  // of windows

  // A window, and what was reserved for it last.
  struct Addresses {
    PageWindow window;
    Reservation* newest = nullptr;
    std::optional<Stream> stream = std::nullopt;  // of a window
  };

  static constexpr int kMostTries = 4;
  static constexpr std::size_t kMostPlaces = 32;
  static constexpr Bytes kMostBytes = Bytes{1} << 46;

  Bytes rounded(Bytes bytes, Bytes unit) const noexcept { return (bytes + unit - 1) / unit * unit; }
  std::size_t few_of(std::size_t pages) const noexcept {
    return static_cast<std::size_t>(heuristics_.spare_share * static_cast<double>(pages));
  }
  bool grow(Addresses& addresses, Bytes bytes);
  template <typename Visit>
  void runs_in(const Reservation& reservation, Extent range, Visit&& visit) const {
    const auto page = static_cast<Address>(properties_.page);
    const Address end = range.address + static_cast<Address>(range.bytes);
    Extent run{};
    for (std::size_t at = (range.address - reservation.base) / page;
         at < reservation.places.size() && reservation.places[at].address < end; ++at) {
      const PagePlace& place = reservation.places[at];
      const bool here = place.page != nullptr && place.page->home == &place;
      if (!here || run.bytes == 0) {
        if (run.bytes != 0) visit(run);
        run = {place.address, 0};
      }
      if (here) run.bytes += properties_.page;
    }
    if (run.bytes != 0) visit(run);
  }
  Places places_under(Extent range);
  std::optional<Places> known_places(Extent range) noexcept;
  Reservation* reservation_at(Address address) noexcept;

  // sleep.cpp
  std::optional<Places> places_of_block(Extent block) noexcept;
  void lie_down(std::span<const Extent> blocks, Sleep sleep, std::vector<Extent>& runs);
  void add_page(std::vector<Extent>& runs, Address address) const;

  // blocks.cpp
  Address allocate_here(Bytes bytes, Stream stream);
  std::optional<Places> place_without_maps(const Addresses& addresses, Extent& block,
                                           Stream stream);
  Address allocate_anywhere(Bytes bytes, Stream stream);
  std::unique_ptr<Addresses>& addresses_of(Stream stream, Bytes bytes) noexcept;
  Address choose(const Addresses& addresses, Bytes bytes, int tries,
                 const std::vector<Extent>& blocked) const noexcept;
  bool take(Addresses& addresses, Extent block, Stream stream) noexcept;
  Address born(Extent block) noexcept;
  void died(Extent block) noexcept;
  void drop(Address address) noexcept;
  bool deallocate(Address address, std::optional<Stream> stream) noexcept;

  // planned/ranges.cpp
  PagePlace& place_in(const Twin& twin);
  void forget_plan(const RangeOwner& owner) noexcept;
  static bool rests(Places places) noexcept;
  static bool waits_only(Places places) noexcept;
  static std::size_t unused(Places places, std::uint32_t blocks) noexcept;
  bool wasteful(const PlannedRange& range, Extent slot, std::size_t more) const noexcept;
  bool occupy_with_pages(PlannedRange& range, Extent slot, std::uint64_t generation);
  bool surrender() noexcept override;
  bool surrender(PlannedRange& range) noexcept;

  // planned/settling.cpp
  void widen_to_pages(std::vector<Extent>& extents) const;
  std::vector<Places> by_completeness(const std::vector<Extent>& extents, std::size_t& complete);
  bool may_create(PlannedRange& range, const std::vector<Places>& runs, std::size_t complete,
                  bool followed) noexcept;
  bool hold(PlannedRange& range, Places places, bool complete);

  OwnDevice device_;
  const DeviceProperties properties_;
  const Heuristics heuristics_;
  Pool pool_;

  // Guarded by the pool's `state`; ranges and reservations change under `work`, too.
  std::map<Address, Reservation> reservations_;
  std::array<std::array<std::unique_ptr<Addresses>, kKinds>, kMostStreams> windows_;
  Addresses planned_;
  std::map<Address, std::unique_ptr<PlannedRange>> ranges_;
  struct SharingPlan {
    std::vector<std::vector<PagePlace*>> pages;
    std::optional<std::size_t> more;
  };
  std::map<const RangeOwner*, SharingPlan> plans_;  // under `work`, too
  bool arranged_ = true;                            // nothing has been missed since
  std::size_t missed_ = 0;                          // pages of slots, since
  int arrangements_ = 0;                            // of this plan
  std::uint64_t iterations_ = 0;                    // of all owners
  std::uint64_t looks_ = 0;                         // at what pages there are
  int strays_ = 0;                                  // iterations with pages out of place
  std::unordered_map<Address, Block> blocks_;
  Bytes window_bytes_ = 0;  // alive
  std::uint64_t allocations_ = 0;
  std::uint64_t allocated_bytes_ = 0;
  std::atomic<bool> lasting_{false};  // what is requested now is there to stay

  std::vector<Extent> living_;  // under `work`
  Sleep sleeps_ = 0;

  // A forked child has no device, and its blocks are nobody's.
  ForkLock fork_work_{ForkRank::kWork, this,
                      [](void* self) { static_cast<Space*>(self)->pool_.work().lock(); },
                      [](void* self, int) { static_cast<Space*>(self)->pool_.work().unlock(); }};
  ForkLock fork_state_{ForkRank::kState, this,
                       [](void* self) { static_cast<Space*>(self)->pool_.state().lock(); },
                       [](void* self, int child) {
                         if (child != 0) static_cast<Space*>(self)->device_.lose();
                         static_cast<Space*>(self)->pool_.state().unlock();
                       }};
};

}  // namespace pgmo::pages
