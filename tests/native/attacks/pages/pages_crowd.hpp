// The attack on pages from several threads, which share one plan.

#pragma once

#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "fake_device.hpp"
#include "oracle.hpp"
#include "pages/space.hpp"
#include "pages_attack.hpp"
#include "pages_requests.hpp"
#include "physical_oracle.hpp"
#include "pretended_plan.hpp"
#include "random.hpp"

namespace pgmo::test {

class Crowd {
 public:
  Crowd(std::uint64_t seed, std::uint64_t events)
      : random_(seed),
        seed_(seed),
        events_(events),
        device_(600),
        properties_(any_properties(random_, device_)),
        space_(device_, properties_, random_heuristics(random_, device_)),
        oracle_(device_),
        plan_(space_, 60 * properties_.page, 0) {}

  void run() {
    std::vector<std::thread> threads;
    for (std::uint64_t number = 0; number < kThreads; ++number) {
      threads.emplace_back([this, number] { work(number); });
    }
    for (std::thread& thread : threads) thread.join();
    device_.synchronize();
    require(plan_.close(), "an empty plan cannot be closed");
    give_all_back(space_, device_);
    require_equal(device_.pages_created(), 0, "pages left at the end");
  }

 private:
  static constexpr std::uint64_t kThreads = 4;

  // Two threads share a stream. All threads share the plan, whose slots belong to one stream.
  void work(std::uint64_t number) {
    Random random(seed_ * kThreads + number);
    const auto stream = static_cast<pages::Stream>(number / 2);
    std::vector<std::pair<Held, bool>> living;
    for (std::uint64_t event = 0; event < events_ / kThreads; ++event) {
      if (random.chance(living.size() > 20 ? 0.3 : 0.55)) {
        const Bytes bytes = (any_size(random, properties_.page) + 63) / 64 * 64;
        Held held{{0, bytes}, stream, number << 48 | event};
        const bool slot = random.chance(0.3);
        if (slot) {
          held.stream = 0;
          if (!plan_.take(random, bytes, held.where)) continue;
        } else {
          held.where.address = space_.allocate(bytes, stream, any_pool(event));
          if (held.where.address == 0) continue;
        }
        oracle_.lives(held.where);
        device_.fill(held.stream, held.where, held.pattern);
        living.push_back({held, slot});
      } else if (!living.empty()) {
        free(living.back());
        living.pop_back();
      }
      if (random.chance(0.02)) plan_.settle();
      if (random.chance(0.01)) space_.give_back(random.between(1, 30) * properties_.page);
      device_.run(3, [&] { return static_cast<pages::Stream>(random.between(0, 1)); });
    }
    for (const auto& one : living) free(one);
  }

  // Every fourth block lies in a pool. Threads close pools in which other threads allocate.
  pages::PoolNumber any_pool(std::uint64_t event) {
    constexpr std::uint64_t kLifetime = 64;
    if (event % kLifetime == 0) space_.close_pool(event / kLifetime);
    return event % 4 == 0 ? 1 + event / kLifetime : 0;
  }

  void free(const std::pair<Held, bool>& one) {
    const auto& [held, slot] = one;
    device_.check(held.stream, held.where, held.pattern);
    oracle_.dies(held.where);
    if (slot) {
      plan_.free(held.where);
    } else {
      require(space_.deallocate(held.where.address), "a block is not known");
    }
  }

  Random random_;
  std::uint64_t seed_;
  std::uint64_t events_;
  FakeDevice device_;
  pages::DeviceProperties properties_;
  pages::Space space_;
  PhysicalOracle oracle_;
  PretendedPlan plan_;
};

}  // namespace pgmo::test
