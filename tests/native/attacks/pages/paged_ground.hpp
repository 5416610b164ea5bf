// An engine over pages, with the requests of an adapter, and counts of their results.

#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "engine/engine.hpp"
#include "fake_device.hpp"
#include "oracle.hpp"
#include "pages/space.hpp"
#include "pages_attack.hpp"
#include "physical_oracle.hpp"
#include "random.hpp"
#include "random_plan.hpp"

namespace pgmo::test {

inline constexpr std::uint32_t kPagedStreams = 2;

struct PagedBlock {
  pages::Extent where{};
  pages::Stream stream = 0;
  std::uint64_t pattern = 0;
};

// Counts of an attack's events, which show that the attack reaches all of them.
struct PagedSeen {
  std::atomic<std::uint64_t> slots{0};
  std::atomic<std::uint64_t> settled{0};
  std::atomic<std::uint64_t> windows{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> retracted{0};
  std::atomic<std::uint64_t> surrenders{0};
  std::atomic<std::uint64_t> retired{0};
  std::atomic<std::uint64_t> arranged{0};
  std::atomic<std::uint64_t> hand_overs{0};

  void require_all() const {
    require(slots > 0 && settled > 0 && windows > 0, "nothing was served");
    require(refused > 0 && retracted > 0, "nothing was refused");
    require(surrenders > 0, "no plan was surrendered");
    require(arranged > 0 && hand_overs > 0, "no streams shared pages");
  }

  void print(std::uint64_t seed, std::uint64_t events) const {
    const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    std::printf(
        "seed %llu: %llu events, no violation; %llu slots (%llu settled), %llu in windows, %llu "
        "refused, %llu slots retracted, %llu surrenders, %llu arenas, %llu "
        "pages arranged, %llu handed over\n",
        number(seed), number(events), number(slots), number(settled), number(windows),
        number(refused), number(retracted), number(surrenders), number(retired), number(arranged),
        number(hand_overs));
  }
};

// An engine, its pages, and an adapter's requests.
class PagedGround {
 public:
  PagedGround(Random& random, std::size_t card)
      : device_(card),
        // The braces fix the order in which the random arguments are drawn.
        space_{device_, random_properties(random, device_), random_heuristics(random, device_)},
        oracle_(device_),
        engine_(heuristics_for(device_)) {}

  ~PagedGround() { engine_.detach_arena(); }

  FakeDevice& device() { return device_; }
  pages::Space& space() { return space_; }
  Engine& engine() { return engine_; }

  // Request a block as an adapter does. Return false if there is no memory.
  bool request(Bytes bytes, pages::Stream stream, std::uint64_t pattern, PagedBlock& held,
               PagedSeen& seen) {
    const bool settled = engine_.settled();
    void* slot = engine_.allocate(static_cast<std::size_t>(bytes), stream);
    auto address = reinterpret_cast<pages::Address>(slot);
    if (slot == nullptr) {
      address = space_.allocate(bytes, stream);
      if (address == 0) {
        ++seen.refused;
        return false;
      }
      (void)engine_.adopt(reinterpret_cast<void*>(address), static_cast<std::size_t>(bytes),
                          stream);
      ++seen.windows;
    } else {
      ++seen.slots;
      seen.settled += settled;
    }
    held = {{address, bytes}, stream, pattern};
    oracle_.lives(held.where);
    device_.fill(stream, held.where, pattern);
    return true;
  }

  void free(const PagedBlock& held) {
    device_.check(held.stream, held.where, held.pattern);
    oracle_.dies(held.where);
    if (engine_.release(reinterpret_cast<void*>(held.where.address))) return;
    require(space_.deallocate(held.where.address), "a block is not known");
  }

  // Replace all plans and arenas: add one arena per stream.
  void attach(const std::vector<RandomPlan>& plans, const Layout& layout, PagedSeen& seen) {
    ++seen.retired;
    engine_.remove_plans();
    engine_.detach_arena();
    for (std::uint32_t stream = 0; stream < kPagedStreams; ++stream) {
      const pgmo_arena arena = engine_.reserve_arena(space_, layout.bytes[stream], stream);
      require(arena.base != nullptr, "no addresses");
      engine_.add_arena(stream, layout.begins[stream], arena);
    }
    add_plans(plans);
  }

  void add_plans(const std::vector<RandomPlan>& plans) {
    static constexpr std::uint64_t kNumbers[] = {0, 1};
    for (const RandomPlan& plan : plans) {
      engine_.add_plan(plan.rows, {kNumbers, kPagedStreams}, plan.arena, plan.alignment);
    }
    engine_.start_serving();
  }

  void finish() {
    device_.fail_one_in = 0;
    device_.captured_streams = 0;
    device_.is_capturing = false;
    engine_.remove_plans();
    engine_.detach_arena();
    device_.synchronize();
    give_all_back(space_, device_);
    require_equal(device_.pages_created(), 0, "pages left at the end");
    const pages::Usage left = space_.meter().now();
    require_equal(static_cast<std::uint64_t>(left.bytes), 0, "bytes of living blocks");
    require_equal(static_cast<std::uint64_t>(left.blocks), 0, "living blocks");
    require_equal(static_cast<std::uint64_t>(left.pages), 0, "bytes of pages");
  }

 private:
  FakeDevice device_;
  pages::Space space_;
  PhysicalOracle oracle_;
  Engine engine_;
};

}  // namespace pgmo::test
