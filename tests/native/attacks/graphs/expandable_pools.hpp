// Pools that become active and inactive at random, while the program changes its settings.
//
//     settings  as in torch: each text resets the threshold if it omits it, but no other setting
//     program   the same settings, as they would be without pgmo
//
// Both are equal while no chosen pool is active. While one is, expandable segments are on, unless
// the program's settings decide about them.

#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/cuda/pools/expandable.hpp"
#include "oracle.hpp"
#include "random.hpp"

namespace pgmo::test {

struct AllocatorSettings {
  bool expandable = false;
  std::size_t step = kDefaultStep;  // bytes
  unsigned threshold = 0;           // percent
  std::string text;

  bool operator==(const AllocatorSettings&) const = default;

  void parse(const std::string& next) {
    threshold = 0;
    text = next;
    std::string_view rest = next;
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      const std::string_view name = one.substr(0, one.find(':'));
      const std::string_view value = one.substr(std::min(one.size(), name.size() + 1));
      unsigned number = 0;
      std::from_chars(value.data(), value.data() + value.size(), number);
      if (name == "expandable_segments") expandable = value == "True";
      if (name == "large_segment_size_mb") step = std::size_t{number} << 20;
      if (name == "threshold") threshold = number;
    }
  }

  bool decides() const {
    return expandable || text.find("expandable_segments") != std::string::npos;
  }
};

// The settings that the adapter changes in these tests, in place of torch's.
class PretendedSettings {
 public:
  static PretendedSettings& instance() {
    static PretendedSettings only;
    return only;
  }
  static std::size_t large_segment_size() { return instance().now.step; }
  static bool use_expandable_segments() { return instance().now.expandable; }
  static std::string last_allocator_settings() { return instance().now.text; }
  void parseArgs(const std::string& text) { now.parse(text); }

  AllocatorSettings now;
};

class ExpandablePools {
 public:
  explicit ExpandablePools(std::uint64_t seed) : random_(seed) {
    PretendedSettings::instance() = {};
    if (random_.chance(0.2)) set();
  }

  // Activate or deactivate a pool, or change a setting, as the program does.
  void step_sometimes() {
    if (!random_.chance(0.1)) return;
    if (random_.chance(0.1)) {
      // Torch keeps only the last text, so a program may set only one text per capture here.
      if (active_.empty() || !set_within_) set();
    } else if (!active_.empty() && random_.chance(0.5)) {
      end(random_.pick(active_));
    } else if (active_.size() < 3) {
      begin(random_.chance(0.7) ? ++newest_ : random_.between(1, 1 + newest_));
    }
    check();
  }

 private:
  using Settings = ExpandableSegmentsOf<PretendedSettings>;
  static constexpr std::uint64_t kCard = std::uint64_t{1} << 42;
  static constexpr std::size_t kMostPools = 7;  // pools of 9/4 of the card each, in 2^46 bytes

  static Settings::Pool id(std::int64_t pool) { return {0, {0, static_cast<std::uint64_t>(pool)}}; }

  void set() {
    std::string text;
    const auto add = [&](const std::string& one) { text += (text.empty() ? "" : ",") + one; };
    if (random_.chance(0.5)) add("threshold:" + std::to_string(random_.between(1, 99)));
    if (random_.chance(0.3)) {
      add("large_segment_size_mb:" + std::to_string(random_.between(11, 40)));
    }
    if (random_.chance(0.15)) {
      add(random_.chance(0.5) ? "expandable_segments:True" : "expandable_segments:False");
    }
    program_.parse(text);
    PretendedSettings::instance().parseArgs(text);
    set_within_ = !active_.empty();
  }

  void begin(std::int64_t pool) {
    if (std::find(active_.begin(), active_.end(), pool) != active_.end()) return;
    if (known_.insert(pool).second) {
      const bool may = !decided_.value_or(program_.decides()) && chosen_.size() < kMostPools;
      segments_.choose(id(pool), kCard);
      require(!may || segments_.chosen(id(pool)), "a pool of a graph is not expandable");
      if (segments_.chosen(id(pool))) chosen_.insert(pool);
      require(chosen_.size() <= kMostPools, "pools reserve more addresses than they may");
    }
    if (chosen_.contains(pool) && ++chosen_active_ == 1) decided_ = program_.decides();
    if (active_.empty()) set_within_ = false;
    active_.push_back(pool);
    segments_.begin(id(pool));
  }

  void end(std::int64_t pool) {
    std::erase(active_, pool);
    if (chosen_.contains(pool) && --chosen_active_ == 0) decided_.reset();
    segments_.end(id(pool));
  }

  void check() const {
    const AllocatorSettings& now = PretendedSettings::instance().now;
    require(now.threshold == program_.threshold, "a setting of the program is lost");
    if (!decided_.has_value() || *decided_) {
      require(now == program_, "settings differ outside of expandable pools");
    } else if (!set_within_) {
      const bool usual = program_.step == kDefaultStep;
      require(now.expandable, "expandable segments are off in a pool of a graph");
      require(now.step == (usual ? kStepMib << 20 : program_.step),
              "segments grow by another step");
    }
    for (const std::int64_t pool : chosen_) {
      require(segments_.chosen(id(pool)), "a pool is not expandable any more");
    }
  }

  Random random_;
  mutable Settings segments_;
  AllocatorSettings program_;
  std::vector<std::int64_t> active_;
  std::set<std::int64_t> known_;
  std::set<std::int64_t> chosen_;
  std::optional<bool> decided_;  // `decides()` when the first chosen pool became active
  int chosen_active_ = 0;
  bool set_within_ = false;  // whether the program changed settings while a pool was active
  std::int64_t newest_ = 0;
};

}  // namespace pgmo::test
