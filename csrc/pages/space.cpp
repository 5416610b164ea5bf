#include "pages/space.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace pgmo::pages {

Space::Space(Device& device, const Tuning& tuning)
    : device_(device), tuning_(tuning), pool_(device, tuning) {
  pool_.ask_before_growing(*this);
}

// --- blocks
// ---------------------------------------------------------------------------------------

Address Space::allocate(Bytes bytes, Stream stream) noexcept {
  if (bytes < 0 || bytes > kMostBytes || stream >= kMostStreams || gone_) return 0;
  const Bytes size = rounded(std::max<Bytes>(bytes, 1), tuning_.granularity);
  try {
    const Address address = allocate_here(size, stream);
    return address != 0 ? address : allocate_anywhere(size, stream);
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

// Where it fits best, if all pages are there.
Address Space::allocate_here(Bytes bytes, Stream stream) {
  const std::lock_guard guard(pool_.state());
  Addresses* addresses = addresses_of(stream, bytes).get();
  if (addresses == nullptr) return 0;
  const Extent block{addresses->window.find(bytes), bytes};
  if (block.address == 0) return 0;
  const Places places = places_under(block);
  if (!pool_.enter(places, stream)) return 0;
  if (born(*addresses, block, stream)) return block.address;
  pool_.leave(places, {});
  return 0;
}

Address Space::allocate_anywhere(Bytes bytes, Stream stream) {
  const std::lock_guard working(pool_.work());
  if (device_.capturing()) return 0;
  pool_.clocks().catch_up();
  Addresses* addresses = nullptr;
  {
    const std::lock_guard guard(pool_.state());
    auto& here = addresses_of(stream, bytes);
    if (here == nullptr) here = std::make_unique<Addresses>();
    addresses = here.get();
  }
  std::vector<Extent> blocked;
  for (int tries = 0;; ++tries) {
    Extent block{0, bytes};
    std::optional<Places> places;
    {
      const std::lock_guard guard(pool_.state());
      block.address = choose(*addresses, bytes, tries, blocked);
      if (block.address != 0) {
        const Places under = places_under(block);
        if (pool_.admit(under, stream, blocked)) {
          if (!born(*addresses, block, stream)) {
            pool_.dismiss(under);
            return 0;
          }
          places = under;
        }
      }
    }
    if (places) {
      if (pool_.provide(*places, stream)) return block.address;
      const std::lock_guard guard(pool_.state());
      died(block.address);
      return 0;
    }
    if (block.address == 0) {
      if (!grow(*addresses, bytes)) return 0;
      continue;
    }
    std::sort(blocked.begin(), blocked.end(),
              [](const Extent& a, const Extent& b) { return a.address < b.address; });
  }
}

// Best fit, then best fit beside what is blocked, then addresses that nothing was ever mapped at.
Address Space::choose(const Addresses& addresses, Bytes bytes, int tries,
                      const std::vector<Extent>& blocked) const noexcept {
  if (tries < kMostTries) return addresses.window.find_outside(bytes, blocked);
  const Reservation* newest = addresses.newest;
  if (newest == nullptr) return 0;
  const Address untouched =
      newest->base + newest->places.size() * static_cast<std::size_t>(tuning_.page);
  return addresses.window.find_within(bytes, untouched,
                                      newest->base + static_cast<Address>(newest->bytes));
}

bool Space::born(Addresses& addresses, Extent block, Stream stream) noexcept {
  try {
    blocks_.emplace(block.address,
                    Block{block.bytes, &addresses.window, Marks::bit(stream), stream});
  } catch (const std::bad_alloc&) {
    return false;
  }
  try {
    addresses.window.take(block);
  } catch (const std::bad_alloc&) {
    blocks_.erase(block.address);
    return false;
  }
  meter_.windows_have(meter_.windows() + block.bytes);
  ++allocations_;
  allocated_bytes_ += static_cast<std::uint64_t>(block.bytes);
  return true;
}

void Space::died(Address address) noexcept {
  const auto block = blocks_.find(address);
  meter_.windows_have(meter_.windows() - block->second.bytes);
  block->second.window->give({address, block->second.bytes});
  blocks_.erase(block);
}

bool Space::deallocate(Address address, Stream stream) noexcept {
  return stream < kMostStreams && deallocate(address, std::optional<Stream>(stream));
}

bool Space::deallocate(Address address) noexcept {
  return deallocate(address, std::optional<Stream>());
}

bool Space::deallocate(Address address, std::optional<Stream> freed_on) noexcept {
  if (gone_) return owns(address);
  bool record = false;
  Stream stream = 0;
  {
    const std::lock_guard guard(pool_.state());
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return false;
    const Block& block = found->second;
    stream = freed_on.value_or(block.stream);
    const Marks marks = pool_.clocks().now(block.users | Marks::bit(stream));
    pool_.leave(places_under({address, block.bytes}), marks);
    record = pool_.clocks().freed(stream, block.bytes) >= tuning_.freed_per_event;
    died(address);
  }
  if (record && !device_.capturing()) (void)pool_.clocks().record(stream);
  return true;
}

bool Space::use_block(Address address, Stream stream) noexcept {
  const std::lock_guard guard(pool_.state());
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || stream >= kMostStreams) return false;
  found->second.users |= Marks::bit(stream);
  return true;
}

bool Space::pin(Extent range) noexcept {
  const std::lock_guard guard(pool_.state());
  Reservation* reservation = reservation_at(range.address);
  if (reservation == nullptr || range.bytes <= 0) return false;
  const auto page = static_cast<Address>(tuning_.page);
  const Address last = range.address + static_cast<Address>(range.bytes) - 1;
  if ((last - reservation->base) / page >= reservation->places.size()) return false;
  return pool_.pin(places_under(range));
}

void Space::pin_living() noexcept {
  const std::lock_guard working(pool_.work());
  (void)surrender();  // so that it is known what lives in planned ranges
  const std::lock_guard guard(pool_.state());
  for (auto& [base, reservation] : reservations_) {
    for (std::size_t at = 0; at < reservation.places.size(); ++at) {
      (void)pool_.pin(Places(reservation, at, 1));
    }
  }
}

bool Space::owns(Address address) noexcept {
  if (gone_) return reservation_at(address) != nullptr;
  const std::lock_guard guard(pool_.state());
  return reservation_at(address) != nullptr;
}

Bytes Space::bytes_of(Address address) noexcept {
  const std::lock_guard guard(pool_.state());
  const auto found = blocks_.find(address);
  return found == blocks_.end() ? 0 : found->second.bytes;
}

// --- planned ranges
// -------------------------------------------------------------------------------

PlannedRange* Space::reserve_range(Bytes bytes, Stream stream, RangeOwner& owner) noexcept {
  if (bytes <= 0 || bytes > kMostBytes || stream >= kMostStreams) return nullptr;
  const Bytes size = rounded(bytes, tuning_.page);
  try {
    const std::lock_guard working(pool_.work());
    Extent where{0, size};
    for (;;) {
      {
        const std::lock_guard guard(pool_.state());
        where.address = planned_.window.find(size);
        if (where.address != 0) {
          (void)places_under(where);
          auto range = std::make_unique<PlannedRange>(where, stream, owner);
          const auto added = ranges_.emplace(where.address, std::move(range)).first;
          try {
            planned_.window.take(where);
          } catch (const std::bad_alloc&) {
            ranges_.erase(added);
            throw;
          }
          return added->second.get();
        }
      }
      if (device_.capturing() || !grow(planned_, size)) return nullptr;
    }
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool Space::occupy(PlannedRange& range, Extent slot, std::uint64_t generation,
                   bool frugal) noexcept {
  try {
    {
      const std::lock_guard guard(pool_.state());
      if (range.generation() != generation || PlannedRange::fully_mapped(generation)) return true;
      const Places places = places_under(slot);
      const std::size_t more = unused(places, 0);
      if (frugal && wasteful(range, slot, more)) return false;
      if (pool_.enter(places, range.stream())) {
        range.used_pages_ += more;
        range.used_bytes_ += slot.bytes;
        return true;
      }
      if (frugal) return false;
    }
    return occupy_with_pages(range, slot, generation);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Places that so many blocks touch.
std::size_t Space::unused(Places places, std::uint32_t blocks) noexcept {
  std::size_t count = 0;
  for (std::size_t at = 0; at < places.size(); ++at) count += places[at].blocks == blocks;
  return count;
}

// Whether a slot would occupy more pages than its bytes need, in a range whose slots do so already:
// in a window such a block shares the pages at its ends with its neighbours.
bool Space::wasteful(const PlannedRange& range, Extent slot, std::size_t more) const noexcept {
  if (more <= static_cast<std::size_t>(slot.bytes / tuning_.page)) return false;
  const Bytes bytes = range.used_bytes_ + slot.bytes;
  const auto pages = static_cast<Bytes>(range.used_pages_ + more);
  return pages * tuning_.page > bytes + bytes / tuning_.waste + 4 * tuning_.page;
}

bool Space::occupy_with_pages(PlannedRange& range, Extent slot, std::uint64_t generation) {
  const std::lock_guard working(pool_.work());
  if (device_.capturing()) return false;
  pool_.clocks().catch_up();
  std::vector<Extent> blocked;
  std::optional<Places> places;
  std::size_t more = 0;
  {
    const std::lock_guard guard(pool_.state());
    if (range.generation() != generation) return true;
    places = places_under(slot);
    more = unused(*places, 0);
    if (!pool_.admit(*places, range.stream(), blocked)) return false;
    range.used_pages_ += more;
    range.used_bytes_ += slot.bytes;
  }
  if (pool_.provide(*places, range.stream())) return true;
  const std::lock_guard guard(pool_.state());
  range.used_pages_ -= std::min(range.used_pages_, more);
  range.used_bytes_ -= slot.bytes;
  return false;
}

void Space::vacate(PlannedRange& range, Extent slot, std::uint64_t generation,
                   std::uint64_t users) noexcept {
  const std::lock_guard guard(pool_.state());
  if (range.generation() != generation || PlannedRange::fully_mapped(generation)) return;
  const Marks marks = pool_.clocks().now(users | Marks::bit(range.stream()));
  const Places places = places_under(slot);
  range.used_pages_ -= std::min(range.used_pages_, unused(places, 1));
  range.used_bytes_ -= slot.bytes;
  pool_.leave(places, marks);
}

bool Space::settle(PlannedRange& range, std::vector<Extent> covered) noexcept {
  try {
    const std::lock_guard working(pool_.work());
    if (range.fully_mapped()) return true;
    if (device_.capturing()) return false;
    pool_.clocks().catch_up();
    widen_to_pages(covered);
    std::vector<Extent> blocked;
    std::size_t held = 0;
    for (; held < covered.size(); ++held) {
      const Places places = [&] {
        const std::lock_guard guard(pool_.state());
        return places_under(covered[held]);
      }();
      bool complete = false;
      {
        const std::lock_guard guard(pool_.state());
        if (!pool_.admit(places, range.stream(), blocked)) break;
        complete = !pool_.needs_pages();
        if (!complete) pool_.dismiss(places);
      }
      if (!complete || !pool_.provide(places, range.stream())) break;
    }
    const std::lock_guard guard(pool_.state());
    if (held < covered.size()) {
      const Marks now = pool_.clocks().now(Marks::bit(range.stream()));
      for (std::size_t at = 0; at < held; ++at) pool_.leave(places_under(covered[at]), now);
      return false;
    }
    for (const Extent& extent : covered) pool_.hold(places_under(extent));
    pool_.began_to_hold();
    range.settled_ = std::move(covered);
    range.settled();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Whole pages, each in one extent only.
void Space::widen_to_pages(std::vector<Extent>& extents) const {
  const auto page = static_cast<Address>(tuning_.page);
  std::size_t kept = 0;
  for (const Extent& one : extents) {
    const Address begin = one.address / page * page;
    const Address end = (one.address + static_cast<Address>(one.bytes) + page - 1) / page * page;
    if (kept > 0) {
      Extent& last = extents[kept - 1];
      const Address last_end = last.address + static_cast<Address>(last.bytes);
      if (begin <= last_end) {
        last.bytes = static_cast<Bytes>(std::max(end, last_end) - last.address);
        continue;
      }
    }
    extents[kept++] = {begin, static_cast<Bytes>(end - begin)};
  }
  extents.resize(kept);
}

bool Space::unsettle(PlannedRange& range) noexcept {
  const std::lock_guard working(pool_.work());
  return !range.fully_mapped() || surrender(range);
}

bool Space::close_range(PlannedRange& range) noexcept {
  const std::lock_guard working(pool_.work());
  if (range.fully_mapped() && !surrender(range)) return false;
  const std::lock_guard guard(pool_.state());
  const Extent where = range.where();
  const Places places = places_under(where);
  for (std::size_t at = 0; at < places.size(); ++at) {
    if (places[at].blocks > places[at].pinned) return false;
  }
  planned_.window.give(where);
  ranges_.erase(where.address);
  return true;
}

bool Space::surrender() noexcept {
  bool any = false;
  for (const auto& [address, range] : ranges_) {
    if (range->fully_mapped()) any = surrender(*range) || any;
  }
  return any;
}

bool Space::surrender(PlannedRange& range) noexcept {
  living_.clear();
  try {
    range.owner().list_living(range, living_);
  } catch (const std::bad_alloc&) {
    return false;
  }
  const std::lock_guard guard(pool_.state());
  for (const Extent& slot : living_) pool_.count(places_under(slot));
  const Marks now = pool_.clocks().now(Marks::bit(range.stream()));
  for (const Extent& extent : range.settled_) pool_.let_go(places_under(extent), now);
  pool_.ceased_to_hold();
  range.used_pages_ = 0;
  for (const Extent& extent : range.settled_) {
    const Places places = places_under(extent);
    range.used_pages_ += places.size() - unused(places, 0);
  }
  range.used_bytes_ = 0;
  for (const Extent& slot : living_) range.used_bytes_ += slot.bytes;
  range.settled_.clear();
  return true;
}

// --- addresses
// ------------------------------------------------------------------------------------

std::unique_ptr<Space::Addresses>& Space::addresses_of(Stream stream, Bytes bytes) noexcept {
  return windows_[stream][bytes < tuning_.small ? 0 : 1];
}

// `work` is held. A page is left out behind each reservation: blocks never lie across two.
bool Space::grow(Addresses& addresses, Bytes bytes) {
  const Bytes size = std::max(tuning_.span, rounded(bytes, tuning_.page) + tuning_.page);
  const Address base = device_.reserve(size);
  if (base == 0) return false;
  const std::lock_guard guard(pool_.state());
  const auto [added, is_new] = reservations_.emplace(base, Reservation{base, size, {}});
  addresses.window.add({base, size - tuning_.page});
  addresses.newest = &added->second;
  return is_new;
}

// Throws std::bad_alloc where no block has been before.
Places Space::places_under(Extent range) {
  Reservation& reservation = *reservation_at(range.address);
  const auto page = static_cast<Address>(tuning_.page);
  const Address from = range.address - reservation.base;
  const std::size_t first = from / page;
  const std::size_t last = (from + static_cast<Address>(range.bytes) - 1) / page;
  for (std::size_t next = reservation.places.size(); next <= last; ++next) {
    reservation.places.emplace_back(reservation.base + next * page);
  }
  return {reservation, first, last - first + 1};
}

Reservation* Space::reservation_at(Address address) noexcept {
  auto at = reservations_.upper_bound(address);
  if (at == reservations_.begin()) return nullptr;
  --at;
  const Address behind = address - at->first;
  return behind < static_cast<Address>(at->second.bytes) ? &at->second : nullptr;
}

// --- the device
// -----------------------------------------------------------------------------------

Bytes Space::give_back(Bytes bytes) noexcept {
  const std::lock_guard working(pool_.work());
  if (device_.capturing()) return 0;
  pool_.clocks().catch_up();
  return pool_.give_back(bytes);
}

void Space::grant_again() noexcept {
  const std::lock_guard working(pool_.work());
  for (auto& [base, reservation] : reservations_) {
    std::size_t end = 0;
    for (std::size_t first = 0; first < reservation.places.size(); first = end + 1) {
      for (end = first; end < reservation.places.size(); ++end) {
        if (reservation.places[end].page == nullptr) break;
      }
      if (end == first) continue;
      (void)device_.grant(reservation.places[first].address,
                          static_cast<Bytes>(end - first) * tuning_.page);
    }
  }
}

void Space::limit(Bytes bytes) noexcept {
  const std::lock_guard working(pool_.work());
  const Bytes beyond = pool_.limit(bytes);
  if (beyond == 0 || device_.capturing()) return;
  pool_.clocks().catch_up();
  pool_.give_back(beyond);
}

Statistics Space::statistics() noexcept {
  const std::lock_guard guard(pool_.state());
  Statistics now = pool_.statistics();
  now.live = meter_.windows();
  now.slots = meter_.slots();
  now.peak_live = meter_.peak();
  now.blocks = blocks_.size();
  now.allocations = allocations_;
  now.allocated = allocated_bytes_;
  return now;
}

void Space::reset_peaks() noexcept {
  const std::lock_guard guard(pool_.state());
  pool_.reset_peaks();
  meter_.reset_peak();
}

void Space::reset_statistics() noexcept {
  const std::lock_guard guard(pool_.state());
  pool_.reset_statistics();
  meter_.reset_peak();
}

// --- around fork()
// --------------------------------------------------------------------------------

void Space::before_fork() noexcept {
  pool_.work().lock();
  pool_.state().lock();
}

void Space::after_fork(bool child) noexcept {
  if (child) gone_ = true;
  pool_.state().unlock();
  pool_.work().unlock();
}

}  // namespace pgmo::pages
