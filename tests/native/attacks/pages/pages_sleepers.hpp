// Blocks of an attack that sleep. The oracle does not track them until they wake and are filled
// again.

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "fake_device.hpp"
#include "pages/space.hpp"
#include "pages_requests.hpp"
#include "physical_oracle.hpp"
#include "pretended_plan.hpp"
#include "random.hpp"

namespace pgmo::test {

class Sleepers {
 public:
  using Block = std::pair<Held, PretendedPlan*>;

  Sleepers(pages::Space& space, FakeDevice& device, PhysicalOracle& oracle)
      : space_(space), device_(device), oracle_(oracle) {}

  bool any() const { return !sleeping_.empty(); }
  std::uint64_t slept() const { return slept_; }
  std::uint64_t woken() const { return woken_; }

  // Let some live blocks sleep, if none sleeps. Return the runs of pages that sleep; other pages
  // are mapped there when the blocks wake.
  std::vector<pages::Extent> sleep(Random& random, std::vector<Block>& living) {
    std::vector<pages::Extent> extents;
    std::vector<pages::Extent> runs;
    if (any() || living.empty()) return runs;
    device_.synchronize();
    const double share = random.chance(0.5) ? 0.9 : 0.3;
    for (std::size_t at = living.size(); at-- > 0;) {
      if (!random.chance(share)) continue;
      std::swap(living[at], living.back());
      extents.push_back(living.back().first.where);
      oracle_.dies(living.back().first.where);
      sleeping_.push_back(living.back());
      living.pop_back();
    }
    number_ = space_.prepare_sleep(extents, runs);
    slept_ += !runs.empty();
    if (random.chance(0.2)) space_.end_sleep(number_);
    (void)space_.begin_sleep(number_);
    if (random.chance(0.3)) space_.forget_peak();
    return runs;
  }

  void wake(std::vector<Block>& living) {
    if (!any()) return;
    rising_.clear();
    if (!space_.wake(number_, rising_)) return;
    device_.synchronize();
    woken_ += !rising_.empty();
    for (const Block& one : sleeping_) {
      oracle_.lives(one.first.where);
      device_.fill(one.first.stream, one.first.where, one.first.pattern);
      living.push_back(one);
    }
    rose_ = std::exchange(sleeping_, {});
  }

  // End the sleep after the contents were restored. Require that no other block has entered the
  // woken pages before.
  void end_sleep(const std::vector<Block>& living) {
    for (const auto& [held, plan] : living) {
      const bool there = std::any_of(rising_.begin(), rising_.end(), [&](const auto& run) {
        return held.where.address < run.end() && run.address < held.where.end();
      });
      const bool rose = std::any_of(rose_.begin(), rose_.end(), [&](const Block& one) {
        return one.first.pattern == held.pattern;
      });
      require(rose || !there, "a block came to live where contents come back");
    }
    rising_.clear();
    rose_.clear();
    space_.end_sleep(number_);
  }

  // Remove a random sleeping block, and return it.
  Block take(Random& random) {
    const auto last = static_cast<std::int64_t>(sleeping_.size()) - 1;
    std::swap(sleeping_[static_cast<std::size_t>(random.between(0, last))], sleeping_.back());
    const Block one = sleeping_.back();
    sleeping_.pop_back();
    return one;
  }

 private:
  pages::Space& space_;
  FakeDevice& device_;
  PhysicalOracle& oracle_;
  std::vector<Block> sleeping_;
  std::vector<pages::Extent> rising_;  // runs of pages that wake
  std::vector<Block> rose_;            // the blocks in these runs
  pages::Sleep number_ = 0;
  std::uint64_t slept_ = 0;
  std::uint64_t woken_ = 0;
};

}  // namespace pgmo::test
