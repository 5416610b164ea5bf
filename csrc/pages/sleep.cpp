// Sleep of blocks: releases their pages, and maps other pages when the blocks wake.

#include <algorithm>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pages/space.hpp"

namespace pgmo::pages {

Sleep Space::prepare_sleep(std::span<const Extent> blocks, std::vector<Extent>& runs) {
  const std::lock_guard working(pool_.work());
  if (device_.capturing()) return 0;
  (void)surrender();  // so that live slots of planned ranges are known
  const Sleep sleep = ++sleeps_;
  try {
    prepare_sleep(blocks, sleep, runs);
  } catch (const std::bad_alloc&) {
    pool_.end_sleep(sleep);
    throw;
  }
  return sleep;
}

void Space::prepare_sleep(std::span<const Extent> blocks, Sleep sleep, std::vector<Extent>& runs) {
  const std::lock_guard guard(pool_.state());
  std::map<Address, std::pair<PagePlace*, std::uint32_t>> touched;
  for (const Extent& block : blocks) {
    const auto places = places_of_block(block);
    for (std::size_t at = 0; places && at < places->size(); ++at) {
      auto& [place, count] = touched[(*places)[at].address];
      place = &(*places)[at];
      ++count;
    }
  }
  runs.reserve(touched.size());
  for (const auto& [address, one] : touched) {
    if (pool_.prepare_sleep(*one.first, one.second, sleep)) add_page(runs, address);
  }
}

// Return the places of a block of a window, or of a slot. Requires `state`.
std::optional<Places> Space::places_of_block(Extent block) noexcept {
  const auto known = blocks_.find(block.address);
  if (known != blocks_.end()) return known_places({block.address, known->second.bytes});
  auto range = ranges_.upper_bound(block.address);
  if (range == ranges_.begin()) return std::nullopt;
  const Extent where = std::prev(range)->second->where();
  if (block.address - where.address >= static_cast<Address>(where.bytes)) return std::nullopt;
  return known_places(block);
}

void Space::add_page(std::vector<Extent>& runs, Address address) const {
  if (!runs.empty() && runs.back().end() == address) {
    runs.back().bytes += properties_.page;
  } else {
    runs.push_back({address, properties_.page});
  }
}

Bytes Space::begin_sleep(Sleep sleep) noexcept {
  const std::lock_guard working(pool_.work());
  return pool_.begin_sleep(sleep);
}

void Space::end_sleep(Sleep sleep) noexcept {
  const std::lock_guard working(pool_.work());
  pool_.end_sleep(sleep);
}

bool Space::wake(Sleep sleep, std::vector<Extent>& runs) {
  const std::lock_guard working(pool_.work());
  if (device_.capturing()) return false;
  std::vector<Address> places;
  if (!pool_.wake(sleep, places)) return false;
  std::sort(places.begin(), places.end());
  for (const Address place : places) add_page(runs, place);
  return true;
}

void Space::forget_peak() noexcept {
  const std::lock_guard working(pool_.work());
  (void)surrender();
  const std::lock_guard guard(pool_.state());
  pool_.forget_peak();
}

}  // namespace pgmo::pages
