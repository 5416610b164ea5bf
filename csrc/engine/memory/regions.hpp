// Regions: memory for blocks that live long.
//
//     region 0   ▓▓▓▓▓▓▓▓▓▓▓▓   the opening's: optimizer state, placed as it is born
//     region 1   ▓▓▓▓▓▓         blocks that were moved here
//     region 2   ▓▓░▓▓▓         given back when it is closed and the last block has died
//
// Such blocks have no planned end, so they are in no plan's arena: one of them would keep its slot
// for good.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/memory/arena.hpp"
#include "engine/replay/late_set.hpp"
#include "types.hpp"

namespace pgmo {

class Regions {
 public:
  // Offsets from here on lie in the opening's region.
  static constexpr Offset kOpening = Offset{1} << 60;

  struct Released {
    Bytes bytes = 0;
    pgmo_arena empty{};  // to be given back now
  };

  // Throws std::invalid_argument when it is not a range of memory. Of two for the opening the
  // earlier one is closed by the caller.
  std::uint32_t add(const pgmo_arena& arena, bool opening);

  // The address of a block at this offset of a region; nullopt when the region is closed, too small
  // or occupied there. Throws std::bad_alloc.
  std::optional<std::uintptr_t> place(std::uint32_t region, Offset offset, Bytes bytes);
  bool place_opening(Offset offset, Bytes bytes);

  // Of an offset that `place_opening` has just taken.
  std::uintptr_t opening_address(Offset offset) const noexcept;

  bool has_opening() const noexcept { return opening_ != kNone; }
  Bytes opening_bytes() const noexcept;

  // No block is placed there any more; the region, if it is empty, is to be given back.
  pgmo_arena close(std::uint32_t region) noexcept;
  pgmo_arena close_opening() noexcept;

  // For an address in a region.
  std::optional<Released> release(std::uintptr_t address) noexcept;

  bool owns(std::uintptr_t address) const noexcept;
  Bytes bytes() const noexcept;

  template <typename Visit>
  void for_each_living(Visit&& visit) const {
    for (const auto& region : regions_) {
      region->blocks.for_each([&](Offset offset, Bytes bytes) {
        visit(address_of(region->arena.base) + static_cast<std::uintptr_t>(offset), bytes);
      });
    }
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Region {
    std::uint32_t number;
    pgmo_arena arena;
    LateSet blocks;
    bool open = true;
  };

  Region* find(std::uint32_t number) const noexcept;
  std::optional<std::uintptr_t> place(Region& region, Offset offset, Bytes bytes);
  pgmo_arena remove(Region& region) noexcept;

  std::vector<std::unique_ptr<Region>> regions_;
  std::uint32_t next_ = 0;
  std::uint32_t opening_ = kNone;
};

}  // namespace pgmo
