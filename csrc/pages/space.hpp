// Memory of a device. Addresses come from windows and planned ranges, pages from one pool.
//
//     window, stream 0, small    ▓▓▓▓░▓▓░░░░...      best fit
//     window, stream 0, large    ▓▓▓▓▓▓▓▓░░░░...
//     window, stream 0, lasting  ▓▓▓▓▓▓░░░░░░...      blocks that stay
//     window, stream 1, large    ▓▓▓▓░░░░░░░░...
//     window of a pool           ▓▓▓░░▓▓░░░░░...      each torch.cuda.MemPool has its own windows
//     planned range A            ▓▓░░▓▓▓▓            offsets that a plan has chosen
//                                ││  ││
//     pages                      ##  ##
//
// Each window and each range belongs to one stream. So live blocks of different streams are never
// on the same page. A page without live blocks may serve any stream, see pool.hpp.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
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

// Allocates blocks and planned ranges. Thread-safe.
class Space final : private Uncounted {
 public:
  explicit Space(DeviceDriver& device, const DeviceProperties& properties = {},
                 const Heuristics& heuristics = process_heuristics);
  ~Space() override = default;
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  // --- blocks -----------------------------------------------------------------------------------

  // Allocate a block and return its address. Return 0 if memory or addresses are exhausted, if an
  // argument is out of range, or in a forked child. During a capture, return 0 if a page is
  // missing. Without aliases, pages that running work uses cannot be taken, so the caller may
  // synchronize and try again. `pool`: number of the pool that owns the window; 0: none.
  Address allocate(Bytes bytes, Stream stream, PoolNumber pool = 0) noexcept;

  // Free a block; return false if it is unknown. In a forked child, only return `owns`.
  bool deallocate(Address address) noexcept;

  // Record that another stream uses a block until its free. The next user of its pages waits for
  // that stream. Return false if the block is unknown, or the stream is out of range.
  bool use_block(Address address, Stream stream) noexcept;

  // Set whether the following requests are placed in windows for blocks that stay, such as
  // optimizer state. Among short-lived blocks, each block that stays would keep a whole page.
  void expect_lasting(bool on) noexcept { lasting_ = on; }

  // Return the bytes of idle pages in the windows of a pool.
  Bytes idle_in(PoolNumber pool) noexcept;

  // Let a later pool use the windows of this pool, after their last block is freed.
  void close_pool(PoolNumber pool) noexcept;

  // Keep the pages of live blocks in this range mapped, because a captured graph uses these
  // addresses. The pages stay mapped after the blocks are freed, until `give_back`. This matches
  // torch's allocator, which keeps segments until its cache is emptied. Return false, and keep
  // nothing, if a page of the range has no live block, or a thread works on it.
  bool pin(Extent range) noexcept;

  // Note that a capture has ended: pin the pages of all live blocks, and forget the highest
  // occupancy. The graph's pool has taken memory, so growing to that occupancy again could raise
  // the device's peak.
  void note_capture() noexcept;

  // While a block lives, keep its pages from sleeping, because another process maps them. Append
  // their handles to `pages`, by address. Return the first page's address, or 0 if no block lives
  // there, or if it sleeps. Throws std::bad_alloc.
  Address share(Extent range, std::vector<Handle>& pages);

  // Call `visit` with the handle of each page from `share` on which a block still lives.
  template <typename Visit>
  void for_each_shared(Visit&& visit) {
    const std::lock_guard guard(pool_.state());
    pool_.for_each_shared(visit);
  }

  // Note a call by which the program orders its streams: see pool/program_order.hpp.
  void ordered(Clocks::Ordered what, std::uint32_t stream, std::uint64_t event) noexcept;

  // Return whether this space has reserved the address, whether or not a block lies there.
  bool owns(Address address) noexcept;

  // Call `visit` with each live block of a window and its stream. `visit` must not call the space.
  template <typename Visit>
  void for_each(Visit&& visit) {
    const std::lock_guard guard(pool_.state());
    for (const auto& [address, block] : blocks_) visit(Extent{address, block.bytes}, block.stream);
  }

  // Call `visit` with each run of consecutive places with pages, its stream and its pool. A page
  // mapped at several places appears once. `visit` must not call this object.
  template <typename Visit>
  void for_each_run(Visit&& visit) {
    const std::lock_guard guard(pool_.state());
    for (const auto& [base, reservation] : reservations_) {
      if (reservation.stream)
        runs_in(reservation, {base, reservation.bytes},
                [&](Extent run) { visit(run, *reservation.stream, reservation.pool); });
    }
    for (const auto& [address, range] : ranges_) {
      runs_in(*reservation_at(address), range->where(),
              [&](Extent run) { visit(run, range->stream(), PoolNumber{0}); });
    }
  }

  // Return the rounded size of a live block in bytes, or 0 if the block is unknown.
  Bytes bytes_of(Address address) noexcept;

  // --- planned ranges ---------------------------------------------------------------------------

  // Reserve a range of addresses without pages. The space owns the range, even after `close_range`.
  // `owner` must live until `close_range`. Return nullptr if no addresses are available or an
  // argument is out of range.
  PlannedRange* reserve_range(Bytes bytes, Stream stream, RangeOwner& owner) noexcept;

  // Count a slot before its first use (`occupy`), and stop counting it (`vacate`). `generation`:
  // the range's generation when the owner took or freed the slot. Nothing happens if the range was
  // settled in this generation, or if the generation has changed since; `occupy` then returns true.
  // `occupy` returns false if missing pages cannot be provided: the slot is not counted, and must
  // not be used.
  bool occupy(PlannedRange& range, Extent slot, std::uint64_t generation) noexcept;
  void vacate(PlannedRange& range, Extent slot, std::uint64_t generation) noexcept;

  // Settle the range if all pages under these extents are mapped. Slots of a settled range are not
  // counted. The extents must be sorted by address, and contain all slots. If only a few pages are
  // missing in several consecutive calls, they are created. Return whether the range is settled.
  bool settle(PlannedRange& range, std::vector<Extent> covered) noexcept;

  // Count the slots of this owner's settled ranges again; false: the host is out of memory.
  bool unsettle(const RangeOwner& owner) noexcept;

  // Replace the sharing plan of this owner. Each entry is one page, with all places of the owner's
  // ranges at which it is mapped. So a block at any of these places uses the page without a device
  // call. `more`: number of pages that the plan needs beyond the largest number in use at once. It
  // may exceed 0, because only streams that the program orders share pages. nullopt: the order of
  // streams is unknown. Throws std::bad_alloc.
  void share(const RangeOwner& owner, const std::vector<SharedPage>& pages,
             std::optional<std::size_t> more);

  // Map idle pages where the sharing plan has them, except at places that running work still uses.
  // If pages were missing in several calls, create them; if the order of streams is unknown, create
  // only a few. Maps nothing while all slots get their planned pages. May return pages to the
  // device.
  void arrange(const RangeOwner& owner) noexcept;

  // Return whether the next `arrange` may have extra pages to return to the device.
  bool has_to_give_back() noexcept { return pool_.has_to_give_back(); }

  // Close the range, so that a later range may use its addresses. Return false if a block lives
  // there, or if the host is out of memory.
  bool close_range(PlannedRange& range) noexcept;

  // --- sleep ------------------------------------------------------------------------------------

  // Prepare for sleep all pages on which only these blocks live. No other block can enter a
  // prepared page. Append the addresses of the pages to `runs`; the caller must save their content.
  // Return the number of the sleep, or 0 during a capture. `blocks`: addresses of blocks in
  // windows, addresses and bytes of slots. If this throws std::bad_alloc, no page is prepared.
  Sleep prepare_sleep(std::span<const Extent> blocks, std::vector<Extent>& runs);

  // Release the prepared pages. No running work may use them. Return their bytes.
  Bytes begin_sleep(Sleep sleep) noexcept;

  // End the sleep. Call this after `wake`, once the contents are restored. Call it instead of
  // `begin_sleep` to cancel the sleep.
  void end_sleep(Sleep sleep) noexcept;

  // Map pages with arbitrary content at the sleeping addresses. Append to `runs` the addresses at
  // which blocks still live; no other block can enter them until `end_sleep`. The caller must wait
  // for the device before it writes there. Return false during a capture, or if there are too few
  // pages. Throws std::bad_alloc. In all these cases the blocks continue to sleep. A second call
  // appends the same addresses, without places whose blocks were freed since the first call.
  bool wake(Sleep sleep, std::vector<Extent>& runs);

  // Set the highest occupancy to the current one. Above it, idle pages are taken before new pages.
  void forget_peak() noexcept;

  // --- the device -------------------------------------------------------------------------------

  // Unpin pages on which no block lives. Then release idle pages whose last use is completed, for
  // another allocator, until this many bytes are released or no such page is left. Return the bytes
  // released; 0 during a capture.
  Bytes give_back(Bytes bytes) noexcept;

  // Grant access to all mapped pages again. Needed after another device has become a peer.
  void grant_again() noexcept;

  // Limit the bytes of all pages, and release idle pages above the limit, except during a capture.
  void limit(Bytes bytes) noexcept;

  Bytes page() const noexcept { return properties_.page; }
  PageStatistics statistics() noexcept;
  void reset_peaks() noexcept;
  Meter& meter() noexcept { return pool_.meter(); }

 private:
  struct Addresses;

  struct Block {
    Bytes bytes;
    Addresses* addresses;
    std::uint64_t users;  // streams that use the block, including its own, one bit each
    Stream stream;
  };

  enum Kind : std::uint8_t { kSmall, kLarge, kLasting, kKinds };  // kinds of windows

  // A window and its latest reservation, which `reservations_` owns.
  struct Addresses {
    PageWindow window;
    Reservation* newest = nullptr;
    std::optional<Stream> stream = std::nullopt;  // the window's; none for planned ranges
    std::size_t blocks = 0;                       // number of live blocks
  };

  // All windows of one pool, or all windows of requests without a pool.
  struct WindowSet {
    bool empty() const noexcept;

    PoolNumber pool = 0;
    std::array<std::array<std::unique_ptr<Addresses>, kKinds>, kMostStreams> windows;
  };

  // Number of tries at the best fit outside of blocked addresses; further tries use new addresses.
  static constexpr int kMostTries = 4;
  // Maximum number of gaps beyond the best fit that a request without device calls inspects.
  static constexpr std::size_t kMostPlaces = 32;
  // Maximum bytes of a block or a range; larger requests fail. So sums of sizes do not overflow.
  static constexpr Bytes kMostBytes = Bytes{1} << 46;

  std::size_t spare_pages(std::size_t pages) const noexcept {
    return static_cast<std::size_t>(heuristics_.spare_share * static_cast<double>(pages));
  }
  bool grow(Addresses& addresses, Bytes bytes, PoolNumber pool = 0);
  template <typename Visit>
  void runs_in(const Reservation& reservation, Extent range, Visit&& visit) const {
    const auto page = static_cast<Address>(properties_.page);
    const Address end = range.end();
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

  Extent mapped_run(const Reservation& reservation, std::size_t& next) noexcept;

  // sleep.cpp
  std::optional<Places> places_of_block(Extent block) noexcept;
  void prepare_sleep(std::span<const Extent> blocks, Sleep sleep, std::vector<Extent>& runs);
  void add_page(std::vector<Extent>& runs, Address address) const;

  // blocks.cpp
  Address allocate_here(Bytes bytes, Stream stream, PoolNumber pool);
  std::optional<Places> place_without_maps(const Addresses& addresses, Extent& block,
                                           Stream stream);
  Address allocate_anywhere(Bytes bytes, Stream stream, PoolNumber pool);
  WindowSet* windows_of(PoolNumber pool) noexcept;
  WindowSet& open_pool(PoolNumber pool);
  std::unique_ptr<Addresses>& addresses_in(WindowSet& set, Stream stream,
                                           Bytes bytes) const noexcept;
  Address choose(const Addresses& addresses, Bytes bytes, int tries,
                 const std::vector<Extent>& blocked) const noexcept;
  bool take(Addresses& addresses, Extent block, Stream stream) noexcept;
  Address count_block(Extent block) noexcept;
  void drop(Address address) noexcept;

  // planned/ranges.cpp
  PagePlace& place_in(const SharedPlace& sharer);
  static void unplan(const std::vector<std::vector<PagePlace*>>& plan) noexcept;
  void forget_plan(const RangeOwner& owner) noexcept;
  static bool await_pages(Places places) noexcept;
  static std::size_t count_places_with(Places places, std::uint32_t blocks) noexcept;
  bool occupy_with_pages(PlannedRange& range, Extent slot, std::uint64_t generation);
  bool surrender() noexcept override;
  bool surrender(PlannedRange& range) noexcept;

  // planned/settling.cpp
  void widen_to_pages(std::vector<Extent>& extents) const;
  std::vector<Places> by_completeness(const std::vector<Extent>& extents, std::size_t& complete);
  bool may_create(PlannedRange& range, const std::vector<Places>& runs,
                  std::size_t complete) noexcept;
  bool hold(PlannedRange& range, Places places, bool complete);

  OwnDevice device_;
  const DeviceProperties properties_;
  const Heuristics heuristics_;
  Pool pool_;

  // Guarded by the pool's `state`; ranges and reservations change only under both locks.
  std::map<Address, Reservation> reservations_;
  WindowSet windows_;
  std::map<PoolNumber, std::unique_ptr<WindowSet>> pools_;
  std::vector<std::unique_ptr<WindowSet>> closed_;  // windows of closed pools; may have live blocks
  Addresses planned_;
  std::map<Address, std::unique_ptr<PlannedRange>> ranges_;

  // Closed ranges, because a thread that freed a slot before `close_range` may yet call `vacate`.
  std::multimap<Address, std::unique_ptr<PlannedRange>> closed_ranges_;
  struct SharingPlan {
    std::vector<std::vector<PagePlace*>> pages;
    std::optional<std::size_t> more;
  };
  std::map<const RangeOwner*, SharingPlan> plans_;  // changes only under both locks
  bool arranged_ = true;          // no slot has missed a page since the last arrangement
  std::size_t missed_ = 0;        // places of slots refused by `occupy` since the last `arrange`
  int arrangements_ = 0;          // number of arrangements since the last `share`
  std::uint64_t iterations_ = 0;  // number of calls of `arrange`
  std::uint64_t searches_ = 0;    // number of searches in `by_completeness`
  int strayed_iterations_ = 0;    // iterations in which a slot got another page than planned
  std::unordered_map<Address, Block> blocks_;
  Bytes window_bytes_ = 0;  // bytes of `blocks_`
  std::uint64_t allocations_ = 0;
  std::uint64_t allocated_bytes_ = 0;
  std::atomic<bool> lasting_{false};  // see `expect_lasting`

  std::vector<Extent> living_;  // live slots in `surrender`; guarded by `work`
  Sleep sleeps_ = 0;

  // A fork takes both locks. In the child, the device refuses all calls.
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
