// The arenas of an engine, as its client knows them. They are taken from the framework.
//
//     stream 0   [──── arena ────]                       an arena for each stream, or none; two
//     stream 1            [─ arena ─]                    arenas must not share offsets
//     stream 2                          (none yet)
//     all                                   [─ spilled ─]
//
// Only the oracle knows the arenas that the engine has retired.

#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "engine/engine.hpp"
#include "failing_new.hpp"
#include "oracle.hpp"
#include "pretended_memory.hpp"
#include "random_plan.hpp"

namespace pgmo::test {

class Ground {
 public:
  // All zero if there is no arena.
  struct Arena {
    std::uintptr_t base = 0;
    Offset begin = 0;
    std::uint64_t bytes = 0;
  };

  Oracle& oracle() { return oracle_; }
  PretendedMemory& memory() { return memory_; }

  // Take a range from the framework that may become an arena.
  pgmo_arena take(std::uint64_t bytes) {
    const std::uintptr_t base = memory_.take(bytes);
    oracle_.taken(base, bytes);
    tokens_.push_back({this, base});
    return {reinterpret_cast<void*>(base), bytes, give_back, &tokens_.back()};
  }
  void refused(const pgmo_arena& range) { return_range(address_of(range.base)); }

  // --- arenas ---

  bool attached() const {
    for (const Arena& arena : arenas_) {
      if (arena.base != 0) return true;
    }
    return spill_.base != 0;
  }
  bool has_arena(std::uint32_t stream) const { return arenas_[stream].base != 0; }

  // Return whether there are arenas, and no block lives in any of them.
  bool idle() const {
    for (const Arena& arena : arenas_) {
      if (arena.base != 0 && !oracle_.is_free(arena.base, arena.bytes)) return false;
    }
    return attached() && (spill_.base == 0 || oracle_.is_free(spill_.base, spill_.bytes));
  }

  void let_go() {
    arenas_.fill({});
    spill_ = {};
  }
  void set(std::uint32_t stream, Offset begin, const pgmo_arena& arena, std::uint64_t alignment) {
    arenas_[stream] = {address_of(arena.base), begin, arena.bytes};
    alignment_ = alignment;
  }

  // Return whether the stream may get an arena for these offsets.
  bool has_room_for(std::uint32_t stream, Offset begin, std::uint64_t bytes) const {
    if (has_arena(stream)) return false;
    if (spill_.base != 0 && begin + static_cast<Offset>(bytes) > spill_.begin) return false;
    for (const Arena& other : arenas_) {
      if (other.base != 0 && begin < other.begin + static_cast<Offset>(other.bytes) &&
          other.begin < begin + static_cast<Offset>(bytes)) {
        return false;
      }
    }
    return true;
  }

  const Arena& spill() const { return spill_; }
  void set_spill(Offset begin, const pgmo_arena& arena, std::uint64_t alignment) {
    spill_ = {address_of(arena.base), begin, arena.bytes};
    alignment_ = alignment;
  }
  bool has_room_for_spill(Offset begin) const {
    if (spill_.base != 0) return false;
    for (const Arena& other : arenas_) {
      if (other.base != 0 && begin < other.begin + static_cast<Offset>(other.bytes)) return false;
    }
    return true;
  }

  std::uintptr_t address(std::uint32_t stream, Offset offset) const {
    const bool spilled = spill_.base != 0 && offset >= spill_.begin;
    const Arena& arena = spilled ? spill_ : arenas_[stream];
    return arena.base + static_cast<std::uintptr_t>(offset - arena.begin);
  }

  void served_from_arena(std::uintptr_t address, std::uint64_t bytes, std::uint32_t stream) {
    if (spill_.base != 0 && address - spill_.base < spill_.bytes) {
      require(stream < kMostStreams && has_arena(stream),
              "a spilled slot is served to a stream that has no arena");
      return oracle_.served(address, bytes, spill_.base, alignment_);
    }
    require(stream < kMostStreams && has_arena(stream),
            "a slot is served to a stream that has no arena");
    oracle_.served(address, bytes, arenas_[stream].base, alignment_);
  }

 private:
  struct Token {
    Ground* ground;
    std::uintptr_t base;
  };

  static void give_back(void* context) {
    allocations_until_failure = -1;  // only allocations of the engine may fail
    const Token& token = *static_cast<Token*>(context);
    token.ground->return_range(token.base);
  }
  void return_range(std::uintptr_t base) { memory_.give(base, oracle_.given_back(base)); }

  Oracle oracle_;
  PretendedMemory memory_;
  std::deque<Token> tokens_;
  std::array<Arena, kMostStreams> arenas_{};
  Arena spill_;
  std::uint64_t alignment_ = 1;
};

}  // namespace pgmo::test
