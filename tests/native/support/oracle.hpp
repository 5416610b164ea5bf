// Oracle of all live blocks and arenas by absolute address. It does not rely on the engine.
//
//     ranges    [───────────── A ─────────────]      [──── B ────]
//     blocks      [a]   [b────]     [c]     [d──]  [framework's]
//
// A block must not overlap another block, nor leave the arena of its slot. Each arena must be given
// back once, when none of its blocks lives. The first violation ends the program.

#pragma once

#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <string>

#include "types.hpp"

namespace pgmo::test {

// Position in an attack, for the message of a violation; see fuzz_replay.cpp.
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
  void taken(std::uintptr_t base, std::uint64_t bytes) { ranges_[base] = bytes; }

  // Record that an arena was given back, and return its bytes.
  std::uint64_t given_back(std::uintptr_t base) {
    const auto range = ranges_.find(base);
    require(range != ranges_.end(), "an arena is given back twice");
    const std::uint64_t bytes = range->second;
    require(is_free(base, bytes), "an arena is given back with a living block in it");
    ranges_.erase(range);
    return bytes;
  }

  void served(std::uintptr_t address, std::uint64_t bytes, std::uintptr_t base,
              std::uint64_t alignment) {
    const auto range = ranges_.find(base);
    require(range != ranges_.end(), "a slot is served from an arena that is gone");
    require(address >= base && address - base <= range->second &&
                bytes <= range->second - (address - base),
            "a slot reaches beyond its arena");
    require((address - base) % alignment == 0, "a slot is not aligned");
    lives(address, bytes);
  }

  void lives(std::uintptr_t address, std::uint64_t bytes) {
    require(is_free(address, bytes), "two live blocks overlap");
    live_.emplace(address, bytes);
  }

  void dies(std::uintptr_t address) {
    require(live_.erase(address) == 1, "a block dies that was not alive");
  }

  bool is_free(std::uintptr_t address, std::uint64_t bytes) const {
    const auto after = live_.lower_bound(address);
    if (after != live_.end() && after->first < address + bytes) return false;
    if (after == live_.begin()) return true;
    const auto before = std::prev(after);
    return before->first + before->second <= address;
  }

  bool holds(std::uintptr_t base) const { return ranges_.contains(base); }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [base, bytes] : ranges_) sum += bytes;
    return sum;
  }
  std::size_t count() const { return ranges_.size(); }
  std::size_t living() const { return live_.size(); }

 private:
  std::map<std::uintptr_t, std::uint64_t> live_;
  std::map<std::uintptr_t, std::uint64_t> ranges_;  // bytes of each arena, by its base
};

}  // namespace pgmo::test
