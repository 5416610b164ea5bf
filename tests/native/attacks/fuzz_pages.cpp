// Attack on pages: several streams that run their work later, a card that is too small, and an
// oracle of physical memory.
//
//     program    request ─ fill ─ use on another stream ─ check ─ free
//                hold a stream, limit, give back, pin, capture, sleep
//     plans      take and free slots, settle and surrender
//     device     does the work later; refuses to create, to map, to record, now and then
//
// The attack runs in one thread first, where everything follows from --seed, and then in several
// threads (pages_crowd.hpp).

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "fake_device.hpp"
#include "oracle.hpp"
#include "pages/space.hpp"
#include "pages_attack.hpp"
#include "pages_crowd.hpp"
#include "pages_requests.hpp"
#include "pages_seen.hpp"
#include "pages_sleepers.hpp"
#include "physical_oracle.hpp"
#include "pretended_plan.hpp"
#include "random.hpp"

namespace pgmo::test {
namespace {

using pages::Address;
using pages::Extent;
using pages::PageStatistics;
using pages::PoolNumber;
using pages::Space;
using pages::Stream;

class Episode {
 public:
  Episode(std::uint64_t seed, std::uint64_t most_events, Seen& seen)
      : random_(seed),
        seen_(seen),
        most_events_(most_events),
        card_(static_cast<std::size_t>(random_.between(40, 600))),
        device_(card_),
        properties_(any_properties(random_, device_)),
        space_(device_, properties_, random_heuristics(random_, device_)),
        oracle_(device_),
        sleepers_(space_, device_, oracle_),
        streams_(random_, device_, static_cast<Stream>(random_.between(1, 4))) {
    if (random_.chance(0.3))
      device_.fail_one_in = static_cast<std::uint64_t>(random_.between(20, 2000));
  }

  void run() {
    if (random_.chance(0.6)) add_plan();
    if (random_.chance(0.3)) add_plan();
    for (; whereabouts.event < most_events_; ++whereabouts.event) {
      act();
      streams_.work();
    }
    finish();
  }

 private:
  void act() {
    const std::int64_t dice = random_.between(0, 999);
    // Fill and empty the card in turn.
    const bool filling = (whereabouts.event / 400) % 2 == 0;
    if (dice < (filling ? 480 : 250)) {
      if (!plans_.empty() && random_.chance(0.4))
        take_slot();
      else
        request();
    } else if (dice < 920) {
      free_one();
    } else if (dice < 950) {
      use_elsewhere();
    } else if (dice < 970) {
      if (plans_.empty()) return;
      PretendedPlan& plan = *random_.pick(plans_);
      if (random_.chance(0.3)) plan.catch_up();
      plan.settle();
      if (random_.chance(0.3)) plan.catch_up();
    } else if (dice < 978) {
      give_back();
    } else if (dice < 982) {
      space_.limit(random_.between(0, static_cast<Bytes>(card_)) * properties_.page);
    } else if (dice < 988) {
      space_.limit(Bytes{1} << 40);
      space_.expect_lasting(random_.chance(0.3));
    } else if (dice < 990) {
      device_.refuse_create = !device_.refuse_create;
    } else if (dice < 992) {
      streams_.hold_one_or_none();
    } else if (dice < 994) {
      device_.captured_streams = random_.chance(0.5) ? 0 : 1u << streams_.any();
    } else if (dice < 996) {
      device_.is_capturing = true;
      for (int times = 0; times < 5; ++times) {
        request();
        free_one();
      }
      device_.is_capturing = false;
    } else if (dice < 997) {
      device_.synchronize();
    } else if (dice < 998) {
      pin();
    } else if (sleepers_.any()) {
      wake();
    } else if (random_.chance(0.5)) {
      sleep();
    } else {
      compare();
    }
  }

  void request() {
    const Bytes bytes = any_size(random_, properties_.page);
    const Stream stream = streams_.any();
    const PoolNumber pool = any_pool();
    const Address address = space_.allocate(bytes, stream, pool);
    if (address == 0) {
      ++seen_.refused;
      return;
    }
    check_pool({address, space_.bytes_of(address)}, pool);
    seen_.pool_blocks += pool != 0;
    require(address % static_cast<Address>(properties_.granularity) == 0, "a block is not aligned");
    require(space_.bytes_of(address) >= bytes, "a block is too small");
    ++seen_.blocks;
    born({{address, space_.bytes_of(address)}, stream, next_pattern_++}, nullptr);
  }

  // Every fourth block lies in a pool. Every 128 blocks the oldest pool is closed, and a new pool
  // begins.
  PoolNumber any_pool() {
    constexpr std::uint64_t kLifetime = 128, kPools = 3;
    const std::uint64_t newest = kPools + next_pattern_ / kLifetime;
    if (newest != newest_pool_) space_.close_pool(newest - kPools);
    newest_pool_ = newest;
    return next_pattern_ % 4 == 0 ? newest - next_pattern_ / 4 % kPools : 0;
  }

  // Require that blocks of different pools lie on different pages.
  void check_pool(Extent block, PoolNumber pool) {
    const auto last_page = [&](Extent of) {
      return (of.end() - 1) / static_cast<Address>(properties_.page);
    };
    const auto after = pools_.lower_bound(block.address);
    if (after != pools_.end() &&
        last_page(block) >= after->first / static_cast<Address>(properties_.page)) {
      require(after->second.pool == pool, "blocks of two pools share a page");
    }
    if (after != pools_.begin()) {
      const auto& [address, before] = *std::prev(after);
      if (last_page({address, before.bytes}) >=
          block.address / static_cast<Address>(properties_.page)) {
        require(before.pool == pool, "blocks of two pools share a page");
      }
    }
    pools_[block.address] = {block.bytes, pool};
  }

  void take_slot() {
    PretendedPlan& plan = *random_.pick(plans_);
    Extent slot{};
    const Bytes bytes = (any_size(random_, properties_.page) + 63) / 64 * 64;
    if (!plan.take(random_, bytes, slot)) return;
    ++seen_.slots;
    seen_.uncounted_slots += plan.fully_mapped();
    born({slot, plan.stream(), next_pattern_++}, &plan);
  }

  void born(const Held& held, PretendedPlan* plan) {
    oracle_.lives(held.where);
    device_.fill(held.stream, held.where, held.pattern);
    living_.push_back({held, plan});
  }

  void free_one() {
    if (sleepers_.any() && random_.chance(0.1)) return free_sleeping();
    if (living_.empty()) return;
    const auto at =
        static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(living_.size()) - 1));
    std::swap(living_[at], living_.back());
    auto [held, plan] = living_.back();
    living_.pop_back();
    device_.check(held.stream, held.where, held.pattern);
    oracle_.dies(held.where);
    free(held, plan);
  }

  void free_sleeping() {
    const auto [held, plan] = sleepers_.take(random_);
    free(held, plan);
  }

  void free(const Held& held, PretendedPlan* plan) {
    if (plan != nullptr) {
      // An owner frees a slot only after other streams that use it are done.
      for (Stream stream = 0; stream < streams_.count(); ++stream) {
        if (held.users >> stream & 1) device_.order(stream, held.stream);
      }
      plan->free(held.where, random_.chance(0.05));
    } else {
      require(space_.deallocate(held.where.address), "a block is not known");
      pools_.erase(held.where.address);
    }
  }

  void use_elsewhere() {
    if (living_.empty()) return;
    auto& [held, plan] = living_[static_cast<std::size_t>(
        random_.between(0, static_cast<std::int64_t>(living_.size()) - 1))];
    const Stream other = streams_.any();
    if (other == held.stream) return;
    device_.order(held.stream, other);
    device_.check(other, held.where, held.pattern);
    held.users |= std::uint64_t{1} << other;
    if (plan == nullptr) require(space_.use_block(held.where.address, other), "a block is unknown");
  }

  void pin() {
    if (living_.empty() || pinned_.size() > 30) return;
    const Held& held = living_.back().first;
    require(space_.pin(held.where), "a living block cannot be pinned");
    pinned_[held.where.address] = device_.page_at(held.where.address);
    ++seen_.pins;
    any_pinned_ = true;
  }

  // Let blocks sleep. A pinned address stays mapped, but may get another page.
  void sleep() {
    for (const Extent& run : sleepers_.sleep(random_, living_)) {
      const auto end = pinned_.lower_bound(run.end());
      pinned_.erase(pinned_.lower_bound(run.address), end);
    }
  }

  bool lives_at(Address address) const {
    return std::any_of(living_.begin(), living_.end(), [&](const auto& one) {
      const Extent where = one.first.where;
      return where.address <= address && address < where.end();
    });
  }

  // Give pages back. A pinned page stays until no block lives there.
  void give_back() {
    const auto before = device_.pages_created();
    std::erase_if(pinned_, [&](const auto& pin) { return !lives_at(pin.first); });
    const Bytes released = space_.give_back(random_.between(1, 100) * properties_.page);
    require_equal(static_cast<std::uint64_t>(released),
                  (before - device_.pages_created()) * static_cast<std::uint64_t>(properties_.page),
                  "bytes given back");
    seen_.given_back += static_cast<std::uint64_t>(released / properties_.page);
  }

  void compare() {
    for (const auto& plan : plans_) plan->catch_up();
    for (const auto& [address, page] : pinned_) {
      require(device_.page_at(address) == page, "a page that is pinned has gone");
    }
    const PageStatistics now = space_.statistics();
    require_equal(static_cast<std::uint64_t>(now.held),
                  device_.pages_created() * static_cast<std::uint64_t>(properties_.page),
                  "bytes held");
    require(now.occupied >= oracle_.occupied(), "fewer pages occupied than there are");
    const bool exact = std::none_of(plans_.begin(), plans_.end(),
                                    [](const auto& plan) { return plan->fully_mapped(); });
    if (exact && !any_pinned_ && !sleepers_.any()) {
      require_equal(static_cast<std::uint64_t>(now.occupied),
                    static_cast<std::uint64_t>(oracle_.occupied()), "bytes occupied");
    }
  }

  // Wake blocks. Requests and frees continue between the mapping of pages and the restoration of
  // contents.
  void wake() {
    sleepers_.wake(living_);
    for (std::int64_t times = random_.between(0, 10); times > 0; --times) {
      free_one();
      request();
    }
    sleepers_.end_sleep(living_);
  }

  void add_plan() {
    auto plan = std::make_shared<PretendedPlan>(space_, random_.between(1, 150) * properties_.page,
                                                streams_.any());
    if (plan->reserved()) plans_.push_back(std::move(plan));
  }

  void finish() {
    device_.fail_one_in = 0;
    device_.captured_streams = 0;
    compare();
    if (random_.chance(0.5)) wake();
    while (sleepers_.any()) free_sleeping();
    while (!living_.empty()) free_one();
    seen_.slept += sleepers_.slept();
    seen_.woken += sleepers_.woken();
    device_.synchronize();
    compare();
    seen_.add(space_.statistics(), device_.most_mappings);
    for (const auto& plan : plans_) require(plan->close(), "an empty plan cannot be closed");
    give_all_back(space_, device_);
    require_equal(device_.pages_created(), 0, "pages left at the end");
  }

  Random random_;
  Seen& seen_;
  std::uint64_t most_events_;
  std::size_t card_;
  FakeDevice device_;
  pages::DeviceProperties properties_;
  Space space_;
  PhysicalOracle oracle_;
  Sleepers sleepers_;
  RandomStreams streams_;
  std::vector<std::shared_ptr<PretendedPlan>> plans_;
  std::vector<std::pair<Held, PretendedPlan*>> living_;
  std::uint64_t next_pattern_ = 0x1234567;
  struct InPool {
    Bytes bytes;
    PoolNumber pool;
  };
  std::map<Address, InPool> pools_;  // live blocks of windows
  PoolNumber newest_pool_ = 0;
  std::map<Address, pages::Handle> pinned_;  // pages under the first byte of pinned blocks
  bool any_pinned_ = false;
};

int attack(std::uint64_t seed, std::uint64_t events) {
  Seen seen;
  for_each_episode(seed, events, [&](std::uint64_t episode, std::uint64_t most_events) {
    Episode(episode, most_events, seen).run();
  });
  for_each_crowd(seed, events,
                 [](std::uint64_t crowd, std::uint64_t all) { Crowd(crowd, all).run(); });
  if (events >= 100'000) seen.require_all();
  seen.print(seed, events);
  return 0;
}

}  // namespace
}  // namespace pgmo::test

int main(int argc, char** argv) {
  const auto [seed, events] = pgmo::test::read_arguments(argc, argv, 10'000'000);
  pgmo::test::notice_faults();
  return pgmo::test::attack(seed, events);
}
