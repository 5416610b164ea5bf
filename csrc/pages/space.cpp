// Functions that serve both windows and planned ranges. Blocks of windows are in blocks.cpp,
// planned ranges in the folder planned.

#include "pages/space.hpp"

#include <algorithm>

namespace pgmo::pages {

Space::Space(DeviceDriver& device, const DeviceProperties& properties, const Heuristics& heuristics)
    : device_(device),
      properties_(properties),
      heuristics_(heuristics),
      pool_(device_, properties, heuristics_) {
  pool_.ask_before_growing(*this);
}

// --- addresses ----------------------------------------------------------------------------------

// Reserve more addresses. The last page of each reservation stays unused, so that no block lies
// across two reservations. Return false if the device refuses. Throws std::bad_alloc. Requires
// `work`.
bool Space::grow(Addresses& addresses, Bytes bytes, PoolNumber pool) {
  const Bytes size =
      std::max(properties_.span, round_up(bytes, properties_.page) + properties_.page);
  const Address base = device_.reserve(size);
  if (base == 0) return false;
  const std::lock_guard guard(pool_.state());
  const auto [added, is_new] =
      reservations_.emplace(base, Reservation{base, size, {}, addresses.stream, pool});
  addresses.window.add({base, size - properties_.page});
  addresses.newest = &added->second;
  return is_new;
}

// Return the places under these addresses. Missing places are created, which may throw
// std::bad_alloc. Requires `state`.
Places Space::places_under(Extent range) {
  Reservation& reservation = *reservation_at(range.address);
  const auto page = static_cast<Address>(properties_.page);
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

// Return the places under these addresses, or nullopt if some do not exist, because no block has
// ever been there. Requires `state`.
std::optional<Places> Space::known_places(Extent range) noexcept {
  Reservation* reservation = reservation_at(range.address);
  if (reservation == nullptr || range.bytes <= 0) return std::nullopt;
  const auto page = static_cast<Address>(properties_.page);
  const Address last = range.end() - 1;
  if ((last - reservation->base) / page >= reservation->places.size()) return std::nullopt;
  return places_under(range);
}

bool Space::pin(Extent range) noexcept {
  const std::lock_guard guard(pool_.state());
  const auto places = known_places(range);
  return places && pool_.pin(*places);
}

Address Space::share(Extent range, std::vector<Handle>& pages) {
  if (device_.lost()) return 0;
  const std::lock_guard working(pool_.work());  // while `work` is held, no page is moving
  const std::lock_guard guard(pool_.state());
  const auto places = known_places(range);
  if (!places) return 0;
  pages.reserve(places->size());
  if (!pool_.share(*places)) return 0;
  for (std::size_t at = 0; at < places->size(); ++at) {
    pages.push_back((*places)[at].page->handle);
  }
  return (*places)[0].address;
}

void Space::note_capture() noexcept {
  const std::lock_guard working(pool_.work());
  (void)surrender();  // so that live slots of planned ranges are known
  const std::lock_guard guard(pool_.state());
  for (auto& [base, reservation] : reservations_) {
    for (std::size_t at = 0; at < reservation.places.size(); ++at) {
      (void)pool_.pin(Places(reservation, at, 1));
    }
  }
  pool_.forget_peak();
}

bool Space::owns(Address address) noexcept {
  if (device_.lost()) return reservation_at(address) != nullptr;
  const std::lock_guard guard(pool_.state());
  return reservation_at(address) != nullptr;
}

// --- the device ---------------------------------------------------------------------------------

Bytes Space::give_back(Bytes bytes) noexcept {
  const std::lock_guard working(pool_.work());
  if (device_.capturing()) return 0;
  {
    const std::lock_guard guard(pool_.state());
    for (auto& [base, reservation] : reservations_) {
      for (PagePlace& place : reservation.places) pool_.unpin(place);
    }
  }
  pool_.clocks().catch_up();
  return pool_.give_back(bytes);
}

void Space::grant_again() noexcept {
  const std::lock_guard working(pool_.work());
  for (const auto& [base, reservation] : reservations_) {
    std::size_t next = 0;
    for (;;) {
      const Extent run = mapped_run(reservation, next);
      if (run.bytes == 0) break;
      (void)device_.grant(run.address, run.bytes);
    }
  }
}

// Return the first run of mapped places from place `next` on, and set `next` to the place after it.
// Return an empty extent if no further place is mapped.
Extent Space::mapped_run(const Reservation& reservation, std::size_t& next) noexcept {
  const std::lock_guard guard(pool_.state());  // other threads append places
  const auto& places = reservation.places;
  while (next < places.size() && places[next].page == nullptr) ++next;
  const std::size_t first = next;
  while (next < places.size() && places[next].page != nullptr) ++next;
  if (next == first) return {};
  return {places[first].address, static_cast<Bytes>(next - first) * properties_.page};
}

void Space::limit(Bytes bytes) noexcept {
  const std::lock_guard working(pool_.work());
  const Bytes beyond = pool_.limit(bytes);
  if (beyond == 0 || device_.capturing()) return;
  pool_.clocks().catch_up();
  pool_.give_back(beyond);
}

void Space::ordered(Clocks::Ordered what, std::uint32_t stream, std::uint64_t event) noexcept {
  const std::lock_guard guard(pool_.state());
  pool_.clocks().ordered(what, stream, event);
}

PageStatistics Space::statistics() noexcept {
  const std::lock_guard guard(pool_.state());
  PageStatistics now = pool_.statistics();
  now.live = window_bytes_;
  now.allocations = allocations_;
  now.allocated = allocated_bytes_;
  return now;
}

void Space::reset_peaks() noexcept {
  const std::lock_guard guard(pool_.state());
  pool_.reset_peaks();
}

}  // namespace pgmo::pages
