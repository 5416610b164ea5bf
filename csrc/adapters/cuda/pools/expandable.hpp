// Expandable segments for pools of graphs that torch's allocator serves.
//
//     Python begins a capture into a new pool ──▶ the pool is chosen, for good
//     a chosen pool is active                 ──▶ expandable segments are on in torch's allocator
//
// Without them, each large block of a pool gets a segment of its own, which later blocks fill only
// in part. Pages serve most requests outside of pools, so torch's allocator needs expandable
// segments nowhere else.
//
// Torch reuses the blocks of an expandable segment only while the setting is on, and those of other
// segments at any time. So a chosen pool stays chosen.
//
// Standard C++, so that tests can replace torch's settings; torch_expandable.hpp has torch's.

#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace pgmo {

// Step by which an expandable segment grows, in MiB. Torch accepts values above 10, the driver
// multiples of 2. With torch's default of 20, more of the last step stays unused.
inline constexpr std::size_t kStepMib = 12;
inline constexpr std::size_t kDefaultStep = std::size_t{20} << 20;

// Address space that chosen pools may reserve, in bytes; processes have 2^47. Torch raises an error
// if there is none left. Each pool reserves 9/8 of the card for small blocks, and again for large
// ones.
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

  // Choose a pool that has no segments yet. `card` is the card's size in bytes. Settings of the
  // program take precedence.
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
      // If the text has changed, it holds settings that the program has made meanwhile.
      const std::string now = text();
      const std::string after = now == during_ ? before_ : now;
      set(after, false);
      Config::instance().parseArgs(after);
    }
  }

  std::mutex& mutex() { return mutex_; }  // locked during a fork

 private:
  static std::string text() { return Config::last_allocator_settings(); }

  // Return whether the program has decided about expandable segments.
  static bool is_decided() {
    return Config::use_expandable_segments() ||
           text().find("expandable_segments") != std::string::npos;
  }

  // Torch resets some settings that a text leaves out, so repeat those of the program.
  void set(const std::string& others, bool on) const {
    std::string settings = others.empty() ? others : others + ",";
    settings += on ? "expandable_segments:True" : "expandable_segments:False";
    // Always name the step, so that no setting of the program has the same text.
    const std::size_t mib = on && step_ == kDefaultStep ? kStepMib : step_ >> 20;
    settings += ",large_segment_size_mb:" + std::to_string(mib);
    Config::instance().parseArgs(settings);
  }

  std::mutex mutex_;
  std::set<Pool> pools_;
  int active_ = 0;        // chosen pools that are active
  bool on_ = false;       // whether this class has switched the setting on
  std::size_t step_ = 0;  // torch's step before `on_` was set, in bytes
  std::string before_;    // torch's settings before `on_` was set
  std::string during_;    // torch's settings while `on_`
};

}  // namespace pgmo
