// Arenas of all streams: the memory of slots. In a plan, the offsets of all arenas form one range.
//
//     offsets   0            a            b            c
//               ├─ stream 0 ─┼─ stream 1 ─┼─ stream 2 ─┤
//     memory    ▓▓▓▓▓▓░░░░    ▓▓▓░          (no arena yet: its requests go to the framework)
//
//     spilled   offsets from d on, above all others: one arena that the session places
//               elsewhere, for example in unified memory, for slots of every stream
//
//     retired   ░░░▓░░░       contains only late blocks; given back when the last one is freed
//
// Blocks of different streams have no common order in time, so each stream has an arena of its own.
// Only the spill arena has slots of several streams.
//
// Offsets and sizes are in bytes. A slot's distance from the base of its arena is its offset minus
// the arena's `begin`. The engine's lock guards this class. An Arenas object owns no memory.
// `retire`, `release_retired` and `release_held` return arenas to their caller. The caller calls an
// arena's `give_back` after it has released the lock.

#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "engine/memory/arena.hpp"
#include "engine/replay/late_set.hpp"
#include "pages/planned/planned_range.hpp"
#include "types.hpp"

namespace pgmo {

class Arenas {
 public:
  // Stream index of the spill arena.
  static constexpr std::uint32_t kEveryStream = ~std::uint32_t{0};
  // Maximum number of streams with an arena of their own. Bit 63 of `without` stands for all others
  // and stays set.
  static constexpr std::uint32_t kMostStreams = 63;
  static_assert(kMostStreams < 64, "`without` has one bit for each stream, and one for all others");
  // Upper bound of offsets, so that the sum of two offsets does not overflow.
  static constexpr Offset kMostOffsets = Offset{1} << 60;

  struct Segment {
    std::uint32_t stream_index;  // or kEveryStream
    Offset begin;
    pgmo_arena arena;
    // The range of the page space if pages are mapped as slots need them, else null. Not owned.
    pages::PlannedRange* range = nullptr;

    bool spilled() const noexcept { return stream_index == kEveryStream; }
  };

  // The result of a free in an arena.
  struct Released {
    Bytes bytes = 0;                       // bytes of the freed block; 0 if no block lived there
    pages::PlannedRange* range = nullptr;  // the block's range, if it has one
    std::uint64_t generation = 0;          // the range's, when the block was freed
    pgmo_arena empty{};  // the arena, if it has become empty; the caller gives it back
  };

  bool attached() const noexcept { return !segments_.empty(); }

  // Return the streams without an arena, as a word with one bit per stream index.
  std::uint64_t without() const noexcept { return without_; }

  // Return the address of an offset. If the stream has no arena, the address lies in no arena.
  std::uintptr_t address(std::uint32_t stream_index, Offset offset) const noexcept {
    if (offset >= spill_begin_) [[unlikely]]
      return spill_bias_ + static_cast<std::uintptr_t>(offset);
    return biases_[stream_index % kBiases] + static_cast<std::uintptr_t>(offset);
  }

  // Return the current arena that contains the address, or nullptr.
  const Segment* at(std::uintptr_t address) const noexcept {
    for (const Segment& segment : segments_) {
      if (contains(segment.arena, address)) [[likely]]
        return &segment;
    }
    return nullptr;
  }

  // Return the offset of an address in a current arena.
  std::optional<Offset> offset_at(std::uintptr_t address) const noexcept {
    const Segment* const segment = at(address);
    if (segment == nullptr) return std::nullopt;
    return offset_in(*segment, address);
  }
  static Offset offset_in(const Segment& segment, std::uintptr_t address) noexcept {
    return segment.begin + static_cast<Offset>(address - address_of(segment.arena.base));
  }

  // Return the spill arena, or nullptr.
  const Segment* spilled() const noexcept;

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const Segment& segment : segments_) visit(segment);
  }

  // Call `visit` with the memory of each retired arena.
  template <typename Visit>
  void for_each_retired(Visit&& visit) const {
    for (const Retired& retired : retired_) visit(retired.arena);
  }

  // Return whether a slot lies inside the arena of its stream, and is aligned relative to the
  // arena's base. A slot that ends above the `begin` of the spill arena must lie inside the spill
  // arena. Returns true if the stream has no arena yet.
  bool has_room(std::uint32_t stream_index, Offset offset, Bytes bytes,
                Bytes alignment) const noexcept;

  // Add an arena. Throws std::bad_alloc. Throws std::invalid_argument, and changes nothing, if
  //  - the arena is not a valid memory range,
  //  - its stream, or the spilled slots, have an arena already,
  //  - its offsets overlap those of another arena,
  //  - the spill arena would not have the highest offsets, or
  //  - there are too many streams.
  void add(const Segment& segment);

  // Retire all current arenas. `late` must contain all live slots; each moves to the late set of
  // its retired arena, and `late` becomes empty. Return the arenas without blocks, which the caller
  // gives back. If this throws std::bad_alloc, nothing has changed.
  std::vector<pgmo_arena> retire(LateSet& late);

  // Free the block at an address in a retired arena. Return nullopt if none contains the address.
  std::optional<Released> release_retired(std::uintptr_t address) noexcept;

  // `hold` adds an idle range of a current or retired arena to the late blocks. So no slot is
  // served there, and the arena is not given back. Throws std::bad_alloc. `release_held` removes
  // the range again. If a retired arena has thus become empty, `release_held` returns it, and the
  // caller gives it back. Otherwise it returns an arena whose base is null.
  void hold(LateSet& late, std::uintptr_t address, Bytes bytes);
  pgmo_arena release_held(LateSet& late, std::uintptr_t address) noexcept;

  // Call `visit` with address and bytes of each late block, in current and retired arenas.
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

  // Return whether a current or retired arena contains the address.
  bool owns(std::uintptr_t address) const noexcept;

  // Return the bytes of framework memory in current and retired arenas. Arenas of pages do not
  // count: the page space counts its pages.
  Bytes bytes() const noexcept;

  // Return the number of current and retired arenas.
  std::size_t count() const noexcept { return segments_.size() + retired_.size(); }

 private:
  struct Retired {
    pgmo_arena arena;
    LateSet blocks;  // their offsets count from this arena's base
    pages::PlannedRange* range = nullptr;
  };

  static constexpr std::uint32_t kBiases = kMostStreams + 1;

  std::vector<Segment> segments_;
  Offset spill_begin_ = std::numeric_limits<Offset>::max();
  std::uintptr_t spill_bias_ = 0;
  // By stream index: base of the arena minus `begin`, so that address = bias + offset. 0 for
  // streams without an arena.
  std::uintptr_t biases_[kBiases] = {};
  std::uint64_t without_ = ~std::uint64_t{0};
  std::vector<Retired> retired_;
};

}  // namespace pgmo
