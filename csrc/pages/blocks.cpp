// Blocks of windows.
//
//     allocate       usually: best fit among mapped pages, which takes one lock
//                    otherwise: map pages at the best fit, outside of blocked addresses, or at
//                    addresses never mapped before; if no gap fits, reserve more addresses
//     deallocate     pages without a block become idle; an event is recorded once enough bytes
//                    were freed
//
// Reserved addresses are never given back. So a later pool uses the windows of a closed pool.

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "checks.hpp"
#include "pages/space.hpp"

namespace pgmo::pages {

Address Space::allocate(Bytes bytes, Stream stream, PoolNumber pool) noexcept {
  if (bytes < 0 || bytes > kMostBytes || stream >= kMostStreams || device_.lost()) return 0;
  const Bytes size = round_up(std::max<Bytes>(bytes, 1), properties_.granularity);
  try {
    const Address address = allocate_here(size, stream, pool);
    return address != 0 ? address : allocate_anywhere(size, stream, pool);
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

// Allocate at the best fit or a larger gap, if this needs no device call. Otherwise return 0.
Address Space::allocate_here(Bytes bytes, Stream stream, PoolNumber pool) {
  const std::lock_guard guard(pool_.state());
  WindowSet* const set = windows_of(pool);
  if (set == nullptr) return 0;
  Addresses* addresses = addresses_in(*set, stream, bytes).get();
  if (addresses == nullptr) return 0;
  Extent block{addresses->window.find(bytes), bytes};
  if (block.address == 0) return 0;
  std::optional<Places> places = places_under(block);
  if (!pool_.enter(*places, stream)) places = place_without_maps(*addresses, block, stream);
  if (!places) return 0;
  if (take(*addresses, block, stream)) return count_block(block);
  pool_.leave(*places, {});
  return 0;
}

// If pages are missing at the best fit, enter the next larger gap whose pages are all mapped, and
// return its places. Skip gaps that would put the block on more idle pages than the best fit.
// Return nullopt if no gap was entered.
std::optional<Places> Space::place_without_maps(const Addresses& addresses, Extent& block,
                                                Stream stream) {
  const Places best = places_under(block);
  bool missing = false;
  for (std::size_t at = 0; at < best.size(); ++at)
    missing |= best[at].page == nullptr || best[at].stale();
  if (!missing) return std::nullopt;  // mapped, but not usable without a device call
  std::array<Address, kMostPlaces> others;
  const std::size_t without_blocks = count_places_with(best, 0);
  const std::size_t count = addresses.window.find_others(block.bytes, others);
  for (std::size_t at = 0; at < count; ++at) {
    const Extent other{others[at], block.bytes};
    const auto places = known_places(other);
    if (!places || count_places_with(*places, 0) > without_blocks || !pool_.enter(*places, stream))
      continue;
    block = other;
    return places;
  }
  return std::nullopt;
}

Address Space::allocate_anywhere(Bytes bytes, Stream stream, PoolNumber pool) {
  const std::lock_guard working(pool_.work());
  if (device_.capturing()) return 0;
  pool_.clocks().catch_up();
  Addresses* addresses = nullptr;
  {
    const std::lock_guard guard(pool_.state());
    auto& here = addresses_in(open_pool(pool), stream, bytes);
    if (here == nullptr) {
      here = std::make_unique<Addresses>();
      here->stream = stream;
    }
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
        if (pool_.admit(under, stream, blocked, Pool::Waits::kRatherElsewhere)) {
          if (!take(*addresses, block, stream)) {
            pool_.dismiss(under);
            return 0;
          }
          places = under;
        }
      }
    }
    if (places) {
      const bool provided = pool_.provide(*places, stream);
      const std::lock_guard guard(pool_.state());
      if (provided) return count_block(block);
      drop(block.address);
      return 0;
    }
    if (block.address == 0) {
      if (!grow(*addresses, bytes, pool)) return 0;
      continue;
    }
    std::sort(blocked.begin(), blocked.end(),
              [](const Extent& a, const Extent& b) { return a.address < b.address; });
  }
}

std::unique_ptr<Space::Addresses>& Space::addresses_in(WindowSet& set, Stream stream,
                                                       Bytes bytes) const noexcept {
  const Kind kind = lasting_ ? kLasting : bytes < heuristics_.small_block ? kSmall : kLarge;
  return set.windows[stream][kind];
}

bool Space::WindowSet::empty() const noexcept {
  return std::all_of(windows.begin(), windows.end(), [](const auto& kinds) {
    return std::all_of(kinds.begin(), kinds.end(),
                       [](const auto& one) { return one == nullptr || one->blocks == 0; });
  });
}

// Return null if the pool has no windows yet.
Space::WindowSet* Space::windows_of(PoolNumber pool) noexcept {
  if (pool == 0) [[likely]]
    return &windows_;
  const auto found = pools_.find(pool);
  return found == pools_.end() ? nullptr : found->second.get();
}

// Return the pool's windows: its own, a closed pool's without live blocks, or new windows.
Space::WindowSet& Space::open_pool(PoolNumber pool) {
  if (WindowSet* const known = windows_of(pool)) return *known;
  auto& set = pools_[pool];
  const auto spare =
      std::find_if(closed_.begin(), closed_.end(), [](const auto& one) { return one->empty(); });
  if (spare == closed_.end()) {
    try {
      set = std::make_unique<WindowSet>();
    } catch (const std::bad_alloc&) {
      pools_.erase(pool);
      throw;
    }
  } else {
    set = std::move(*spare);
    closed_.erase(spare);
    for (auto& [base, reservation] : reservations_) {
      if (reservation.pool == set->pool) reservation.pool = pool;
    }
  }
  set->pool = pool;
  return *set;
}

void Space::close_pool(PoolNumber pool) noexcept {
  const std::lock_guard working(pool_.work());
  const std::lock_guard guard(pool_.state());
  const auto found = pools_.find(pool);
  if (found == pools_.end()) return;
  try {
    closed_.reserve(closed_.size() + 1);
  } catch (const std::bad_alloc&) {
    return;  // The pool stays open, so no later pool uses its windows.
  }
  closed_.push_back(std::move(found->second));
  pools_.erase(found);
}

Bytes Space::idle_in(PoolNumber pool) noexcept {
  const std::lock_guard guard(pool_.state());
  Bytes idle = 0;
  for (const auto& [base, reservation] : reservations_) {
    if (reservation.pool != pool) continue;
    for (const PagePlace& place : reservation.places) {
      const bool here = place.page != nullptr && place.page->home == &place;
      if (here && place.page->state == Page::State::kIdle) idle += properties_.page;
    }
  }
  return idle;
}

// Choose an address, or return 0 if no gap fits. The first tries use the best fit outside of the
// blocked addresses, later tries use addresses that were never mapped.
Address Space::choose(const Addresses& addresses, Bytes bytes, int tries,
                      const std::vector<Extent>& blocked) const noexcept {
  if (tries < kMostTries) return addresses.window.find_outside(bytes, blocked);
  const Reservation* newest = addresses.newest;
  if (newest == nullptr) return 0;
  const Address untouched =
      newest->base + newest->places.size() * static_cast<std::size_t>(properties_.page);
  return addresses.window.find_within(bytes, untouched,
                                      newest->base + static_cast<Address>(newest->bytes));
}

// Take the addresses for the block. Return false if the host is out of memory.
bool Space::take(Addresses& addresses, Extent block, Stream stream) noexcept {
  try {
    blocks_.emplace(block.address, Block{block.bytes, &addresses, Marks::bit(stream), stream});
  } catch (const std::bad_alloc&) {
    return false;
  }
  try {
    addresses.window.take(block);
  } catch (const std::bad_alloc&) {
    blocks_.erase(block.address);
    return false;
  }
  ++addresses.blocks;
  return true;
}

// Count a block that has its pages, and return its address.
Address Space::count_block(Extent block) noexcept {
  pool_.meter().allocated(block.bytes);
  window_bytes_ += block.bytes;
  ++allocations_;
  allocated_bytes_ += static_cast<std::uint64_t>(block.bytes);
  return block.address;
}

void Space::drop(Address address) noexcept {
  const auto block = blocks_.find(address);
  PGMO_ASSERT(block != blocks_.end());
  Addresses& addresses = *block->second.addresses;
  addresses.window.give({address, block->second.bytes});
  --addresses.blocks;
  blocks_.erase(block);
}

bool Space::deallocate(Address address) noexcept {
  if (device_.lost()) return owns(address);
  bool record = false;
  Stream stream = 0;
  {
    const std::lock_guard guard(pool_.state());
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return false;
    const Block& block = found->second;
    stream = block.stream;
    const Marks marks = pool_.clocks().now(block.users);
    pool_.leave(places_under({address, block.bytes}), marks);
    record = pool_.clocks().freed(stream, block.bytes) >= heuristics_.freed_per_event;
    pool_.meter().freed(block.bytes);
    window_bytes_ -= block.bytes;
    drop(address);
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

Bytes Space::bytes_of(Address address) noexcept {
  const std::lock_guard guard(pool_.state());
  const auto found = blocks_.find(address);
  return found == blocks_.end() ? 0 : found->second.bytes;
}

}  // namespace pgmo::pages
