// Knows every live range and every arena by absolute address, and believes nothing that the engine
// says.
//
//     arenas    [───────────── A ─────────────]      [──── B ────]
//     blocks      [a]   [b────]     [c]     [d──]  [framework's]
//
// A block may not overlap another one, nor leave the arena that it was served from. An arena is
// given back once, when none of its blocks lives. The first violation ends the program.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string>

#include "types.hpp"

namespace pgmo::test {

// Where the program is, for the message; see fuzz_replay.cpp.
struct Whereabouts {
  std::uint64_t seed = 0;
  std::uint64_t episode = 0;
  std::uint64_t event = 0;
};

inline Whereabouts whereabouts;

[[noreturn]] inline void violation(const std::string& what) {
  std::printf("VIOLATION: %s (seed %llu, episode %llu, event %llu of it)\n", what.c_str(),
              static_cast<unsigned long long>(whereabouts.seed),
              static_cast<unsigned long long>(whereabouts.episode),
              static_cast<unsigned long long>(whereabouts.event));
  std::fflush(stdout);
  std::_Exit(1);
}

inline void require(bool holds, const char* what) {
  if (!holds) violation(what);
}

inline void require_equal(std::uint64_t engine, std::uint64_t oracle, const char* what) {
  if (engine == oracle) return;
  violation(std::string(what) + ": the engine says " + std::to_string(engine) +
            ", the oracle knows " + std::to_string(oracle));
}

class Oracle {
 public:
  void arena_taken(std::uintptr_t base, std::uint64_t bytes) { arenas_[base] = bytes; }

  // Returns its bytes.
  std::uint64_t arena_given_back(std::uintptr_t base) {
    const auto arena = arenas_.find(base);
    require(arena != arenas_.end(), "an arena is given back twice");
    const std::uint64_t bytes = arena->second;
    const auto first = live_.lower_bound(base);
    require(first == live_.end() || first->first >= base + bytes,
            "an arena is given back with a living block in it");
    arenas_.erase(arena);
    return bytes;
  }

  void served(std::uintptr_t address, std::uint64_t bytes, std::uintptr_t base,
              std::uint64_t alignment) {
    const auto arena = arenas_.find(base);
    require(arena != arenas_.end(), "a slot is served from an arena that is gone");
    require(address >= base && address - base <= arena->second &&
                bytes <= arena->second - (address - base),
            "a slot reaches beyond its arena");
    require((address - base) % alignment == 0, "a slot is not aligned");
    lives(address, bytes);
  }

  void lives(std::uintptr_t address, std::uint64_t bytes) {
    const auto after = live_.lower_bound(address);
    require(after == live_.end() || after->first >= address + bytes, "two live blocks overlap");
    if (after != live_.begin()) {
      const auto before = std::prev(after);
      require(before->first + before->second <= address, "two live blocks overlap");
    }
    live_.emplace_hint(after, address, bytes);
  }

  void dies(std::uintptr_t address) {
    require(live_.erase(address) == 1, "a block dies that was not alive");
  }

  std::uint64_t arena_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [base, bytes] : arenas_) sum += bytes;
    return sum;
  }
  std::size_t arenas() const { return arenas_.size(); }
  std::size_t living() const { return live_.size(); }

 private:
  std::map<std::uintptr_t, std::uint64_t> live_;
  std::map<std::uintptr_t, std::uint64_t> arenas_;
};

}  // namespace pgmo::test
