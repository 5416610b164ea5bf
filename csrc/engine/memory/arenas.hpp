// The arenas that slots lie in: one for each stream, seen by plans as one range of offsets.
//
//     offsets   0            a            b            c
//               ├─ stream 0 ─┼─ stream 1 ─┼─ stream 2 ─┤
//     memory    ▓▓▓▓▓▓░░░░    ▓▓▓░          (no arena yet: its requests go to the framework)
//
//     spilled   offsets from d on, behind all others: one block for the slots of every stream that
//               plans keep apart, as those in unified memory.
//
//     retired   ░░░▓░░░       only late blocks; given back when the last of them has died
//
// Blocks of different streams are not ordered in time, so they never share an arena.

#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "engine/memory/arena.hpp"
#include "engine/replay/late_set.hpp"
#include "pages/planned/planned_range.hpp"
#include "types.hpp"

namespace pgmo {

class Arenas {
 public:
  static constexpr std::uint32_t kEveryStream = ~std::uint32_t{0};  // of what is spilled
  // With an arena of their own. One bit of `without` stays set, then, for all streams beyond.
  static constexpr std::uint32_t kMostStreams = 63;
  static_assert(kMostStreams < 64, "`without` has one bit for each, and one for all beyond");
  // Offsets are below it, so that sums of them are numbers.
  static constexpr Offset kMostOffsets = Offset{1} << 60;

  struct Segment {
    std::uint32_t stream_index;  // or kEveryStream
    Offset begin;
    pgmo_arena arena;
    pages::PlannedRange* range = nullptr;  // where it has pages only as slots need them

    bool spilled() const noexcept { return stream_index == kEveryStream; }
  };

  struct Released {
    Bytes bytes = 0;
    pages::PlannedRange* range = nullptr;
    pgmo_arena empty{};  // to be given back now
  };

  bool attached() const noexcept { return !segments_.empty(); }

  // Streams without an arena, one bit each.
  const std::uint64_t& without() const noexcept { return without_; }

  std::uintptr_t address(std::uint32_t stream_index, Offset offset) const noexcept {
    if (offset >= spill_begin_) [[unlikely]]
      return spill_bias_ + static_cast<std::uintptr_t>(offset);
    return biases_[stream_index % kBiases] + static_cast<std::uintptr_t>(offset);
  }

  // The current arena that an address lies in, or nullptr.
  const Segment* at(std::uintptr_t address) const noexcept {
    for (const Segment& segment : segments_) {
      if (contains(segment.arena, address)) [[likely]]
        return &segment;
    }
    return nullptr;
  }

  // The offset that an address in a current arena has.
  std::optional<Offset> offset_at(std::uintptr_t address) const noexcept {
    const Segment* const segment = at(address);
    if (segment == nullptr) return std::nullopt;
    return offset_in(*segment, address);
  }
  static Offset offset_in(const Segment& segment, std::uintptr_t address) noexcept {
    return segment.begin + static_cast<Offset>(address - address_of(segment.arena.base));
  }

  // The stream of the current arena that an address lies in, or kEveryStream.
  std::optional<std::uint32_t> stream_at(std::uintptr_t address) const noexcept;

  // The arena of what is spilled, or nullptr.
  const Segment* spilled() const noexcept;

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const Segment& segment : segments_) visit(segment);
  }

  // The memory of those that serve no more.
  template <typename Visit>
  void for_each_retired(Visit&& visit) const {
    for (const Retired& retired : retired_) visit(retired.arena);
  }

  // Whether a slot lies in the arena of its stream; so it does when there is none yet.
  bool has_room(std::uint32_t stream_index, Offset offset, Bytes bytes,
                Bytes alignment) const noexcept;

  // Throws std::invalid_argument, and changes nothing, when a segment is not a range of memory, its
  // stream has one already, its offsets are taken, or there are some behind the spilled ones.
  void add(const Segment& segment);

  // The current arenas serve no more. The late blocks stay with them until they die; returned are
  // those that are empty.
  std::vector<pgmo_arena> retire(LateSet& late);

  // For an address in a retired arena.
  std::optional<Released> release_retired(std::uintptr_t address) noexcept;

  // An idle range of a current or a retired arena becomes a late block, until it is let go of.
  // Throws std::bad_alloc. Then, where nothing else was left in a retired one, the arena is to be
  // given back.
  void hold(LateSet& late, std::uintptr_t address, Bytes bytes);
  pgmo_arena let_go(LateSet& late, std::uintptr_t address) noexcept;

  // Late blocks by their addresses, those of the current arenas and of the retired ones.
  template <typename Visit>
  void for_each_late(const LateSet& late, Visit&& visit) const {
    for (const Segment& segment : segments_) {
      const std::uintptr_t bias =
          address_of(segment.arena.base) - static_cast<std::uintptr_t>(segment.begin);
      late.for_each([&](Offset offset, Bytes bytes) {
        const std::uintptr_t address = bias + static_cast<std::uintptr_t>(offset);
        if (contains(segment.arena, address)) visit(address, bytes);
      });
    }
    for (const Retired& retired : retired_) {
      retired.blocks.for_each([&](Offset offset, Bytes bytes) {
        visit(address_of(retired.arena.base) + static_cast<std::uintptr_t>(offset), bytes);
      });
    }
  }

  bool owns(std::uintptr_t address) const noexcept;

  // Of the framework's memory: what is of addresses alone has pages, which are counted elsewhere.
  Bytes bytes() const noexcept;
  std::size_t count() const noexcept { return segments_.size() + retired_.size(); }

 private:
  struct Retired {
    pgmo_arena arena;
    LateSet blocks;  // by their offsets in this arena
    pages::PlannedRange* range = nullptr;
  };

  static constexpr std::uint32_t kBiases = kMostStreams + 1;

  std::vector<Segment> segments_;
  Offset spill_begin_ = std::numeric_limits<Offset>::max();
  std::uintptr_t spill_bias_ = 0;
  std::uintptr_t biases_[kBiases] = {};
  std::uint64_t without_ = ~std::uint64_t{0};
  std::vector<Retired> retired_;
};

}  // namespace pgmo
