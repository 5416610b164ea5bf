// Expandable segments in torch's allocator, for pools of graphs that torch's allocator serves.
//
//     Python begins a capture into a new pool ──▶ the pool is chosen, for as long as it exists
//     a chosen pool is active                 ──▶ expandable segments are on in torch's allocator
//
// Without expandable segments, each large block of a pool gets a segment of its own. Later blocks
// fill this segment only in part. Pages serve most requests outside of pools, so torch's allocator
// needs expandable segments only for pools.
//
// Torch reuses the blocks of an expandable segment only while the setting `expandable_segments` is
// on. It reuses blocks of other segments at any time. So a chosen pool stays chosen.
//
// Thread-safe; no other lock is taken under its lock.
//
// This file is standard C++: torch_expandable.hpp passes torch's settings, and tests their own.

#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace pgmo {

// Step by which an expandable segment of a chosen pool grows, in MiB; `kDefaultStep`: torch's
// default, in bytes. Torch accepts values above 10, the driver multiples of 2. With torch's
// default, more of the last step stays unused.
inline constexpr std::size_t kStepMib = 12;
inline constexpr std::size_t kDefaultStep = std::size_t{20} << 20;

// Maximum address space that the chosen pools may reserve, in bytes; a process has 2^47. Each pool
// reserves 9/8 of the card for small blocks, and 9/8 for large blocks. No further pool is chosen
// above this maximum, because torch raises an error if no addresses are left.
inline constexpr std::uint64_t kMostAddressSpace = std::uint64_t{1} << 46;

// Versions of torch whose settings can be read as text and parsed again, to change one of them.
template <typename Config>
concept ChangesOneSetting = requires {
  Config::large_segment_size();
  Config::use_expandable_segments();
  Config::last_allocator_settings();
  Config::instance().parseArgs(std::string());
};

template <typename Config>
class ExpandableSegmentsOf {
 public:
  using Pool = std::pair<int, std::pair<std::uint64_t, std::uint64_t>>;  // device, and torch's id

  // Choose a pool that has no segments yet. Does nothing if the program's own settings decide about
  // expandable segments, or above kMostAddressSpace. `card`: the card's size in bytes.
  void choose(const Pool& pool, std::uint64_t card) {
    if constexpr (ChangesOneSetting<Config>) {
      const std::lock_guard guard(mutex_);
      const std::uint64_t reserved = (pools_.size() + 1) * (card / 4 * 9);
      if (reserved > kMostAddressSpace) return;
      if (active_ != 0 || !is_decided()) pools_.insert(pool);
    }
  }

  bool chosen(const Pool& pool) {
    const std::lock_guard guard(mutex_);
    return pools_.contains(pool);
  }

  // `begin`: the pool becomes active; `end`: it no longer is. Torch's setting is on while any
  // chosen pool is active. Afterwards the program's settings are restored.
  void begin(const Pool& pool) {
    if constexpr (ChangesOneSetting<Config>) {
      const std::lock_guard guard(mutex_);
      if (!pools_.contains(pool) || active_++ != 0 || is_decided()) return;
      on_ = true;
      step_ = Config::large_segment_size();
      before_ = text();
      set(before_, true);
      during_ = text();
    }
  }

  void end(const Pool& pool) {
    if constexpr (ChangesOneSetting<Config>) {
      const std::lock_guard guard(mutex_);
      if (!pools_.contains(pool) || active_ == 0 || --active_ != 0) return;
      if (!std::exchange(on_, false)) return;
      // If the text has changed, it contains settings that the program has made meanwhile.
      const std::string now = text();
      const std::string after = now == during_ ? before_ : now;
      set(after, false);
      Config::instance().parseArgs(after);
    }
  }

  std::mutex& mutex() { return mutex_; }  // locked during a fork

 private:
  static std::string text() { return Config::last_allocator_settings(); }

  // Return whether the program's settings mention expandable segments, or have switched them on.
  static bool is_decided() {
    return Config::use_expandable_segments() ||
           text().find("expandable_segments") != std::string::npos;
  }

  // Switch expandable segments on or off, and keep the settings `others`. Torch resets some
  // settings that a text leaves out, so the text repeats `others`.
  void set(const std::string& others, bool on) const {
    std::string settings = others.empty() ? others : others + ",";
    settings += on ? "expandable_segments:True" : "expandable_segments:False";
    // Always name the step, so that the text differs from any text of the program.
    const std::size_t mib = on && step_ == kDefaultStep ? kStepMib : step_ >> 20;
    settings += ",large_segment_size_mb:" + std::to_string(mib);
    Config::instance().parseArgs(settings);
  }

  std::mutex mutex_;
  std::set<Pool> pools_;
  int active_ = 0;        // number of chosen pools that are active
  bool on_ = false;       // whether this class has switched the setting on
  std::size_t step_ = 0;  // torch's step before `on_` was set, in bytes
  std::string before_;    // torch's settings before `on_` was set
  std::string during_;    // torch's settings while `on_`
};

}  // namespace pgmo
