#include "engine/memory/regions.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace pgmo {

std::uint32_t Regions::add(const pgmo_arena& arena, bool opening) {
  if (arena.base == nullptr || arena.bytes == 0 || arena.bytes > ~address_of(arena.base)) {
    throw std::invalid_argument("a region of " + std::to_string(arena.bytes) +
                                " bytes is not a range of memory");
  }
  if (opening && has_opening()) throw std::invalid_argument("the opening has a region already");
  auto region = std::make_unique<Region>();
  region->number = next_;
  region->arena = arena;
  regions_.push_back(std::move(region));
  if (opening) opening_ = next_;
  return next_++;
}

std::optional<std::uintptr_t> Regions::place(std::uint32_t number, Offset offset, Bytes bytes) {
  Region* region = find(number);
  return region == nullptr ? std::nullopt : place(*region, offset, bytes);
}

bool Regions::place_opening(Offset offset, Bytes bytes) {
  return place(opening_, offset - kOpening, bytes).has_value();
}

std::uintptr_t Regions::opening_address(Offset offset) const noexcept {
  const Region* region = find(opening_);
  return address_of(region->arena.base) + static_cast<std::uintptr_t>(offset - kOpening);
}

std::optional<std::uintptr_t> Regions::place(Region& region, Offset offset, Bytes bytes) {
  if (!region.open || offset < 0 || bytes <= 0 ||
      bytes > static_cast<Bytes>(region.arena.bytes) - offset ||
      region.blocks.overlaps(offset, bytes)) {
    return std::nullopt;
  }
  region.blocks.insert(offset, bytes);
  return address_of(region.arena.base) + static_cast<std::uintptr_t>(offset);
}

Bytes Regions::opening_bytes() const noexcept {
  const Region* region = find(opening_);
  return region == nullptr ? 0 : static_cast<Bytes>(region->arena.bytes);
}

pgmo_arena Regions::close(std::uint32_t number) noexcept {
  if (number == opening_) opening_ = kNone;
  Region* region = find(number);
  if (region == nullptr) return {};
  region->open = false;
  return region->blocks.empty() ? remove(*region) : pgmo_arena{};
}

pgmo_arena Regions::close_opening() noexcept {
  return has_opening() ? close(opening_) : pgmo_arena{};
}

std::optional<Regions::Released> Regions::release(std::uintptr_t address) noexcept {
  for (const auto& region : regions_) {
    if (!contains(region->arena, address)) continue;
    Released released;
    const auto offset = static_cast<Offset>(address - address_of(region->arena.base));
    released.bytes = region->blocks.erase(offset);
    if (!region->open && region->blocks.empty()) released.empty = remove(*region);
    return released;
  }
  return std::nullopt;
}

bool Regions::owns(std::uintptr_t address) const noexcept {
  return std::any_of(regions_.begin(), regions_.end(),
                     [&](const auto& region) { return contains(region->arena, address); });
}

Bytes Regions::bytes() const noexcept {
  Bytes sum = 0;
  for (const auto& region : regions_) sum += static_cast<Bytes>(region->arena.bytes);
  return sum;
}

Regions::Region* Regions::find(std::uint32_t number) const noexcept {
  for (const auto& region : regions_) {
    if (region->number == number) return region.get();
  }
  return nullptr;
}

pgmo_arena Regions::remove(Region& region) noexcept {
  const pgmo_arena arena = region.arena;
  std::erase_if(regions_, [&](const auto& one) { return one.get() == &region; });
  return arena;
}

}  // namespace pgmo
