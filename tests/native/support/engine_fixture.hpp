// An engine, and arenas whose addresses no test reads or writes.

#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/engine.hpp"
#include "rows.hpp"

namespace pgmo::test {

inline constexpr std::uint64_t kStream = 0x5eed;
inline constexpr std::uint64_t kOtherStream = 0xbeef;
inline const std::vector<std::uint64_t> kStreams = {kStream, kOtherStream};

struct Fixture {
  Engine engine;
  std::array<int, 8> returned{};  // number of times that each range was given back

  static std::uintptr_t base(int range) {
    return 0x10000000u + static_cast<std::uintptr_t>(range) * 0x1000000u;
  }
  pgmo_arena range(int number, std::size_t bytes = 10'000) {
    return {reinterpret_cast<void*>(base(number)), bytes,
            [](void* count) { ++*static_cast<int*>(count); },
            &returned.at(static_cast<std::size_t>(number))};
  }
  int given_back() const { return std::accumulate(returned.begin(), returned.end(), 0); }

  void attach(int arena, std::size_t bytes = 10'000) {
    engine.add_arena(kStream, 0, range(arena, bytes));
  }
  void replace(int arena, std::size_t bytes = 10'000) {
    engine.detach_arena();
    attach(arena, bytes);
    engine.start_serving();
  }
  Engine::PlanId add(const std::vector<PlannedRequest>& rows, Bytes arena = 10'000) {
    return engine.add_plan(rows, kStreams, arena, 1);
  }
  void serve(const std::vector<PlannedRequest>& rows) {
    if (!engine.has_arena()) attach(0);
    add(rows);
    engine.start_serving();
  }
  std::uintptr_t allocate(std::size_t bytes, std::uint64_t stream = kStream) {
    return reinterpret_cast<std::uintptr_t>(engine.allocate(bytes, stream));
  }
  bool release(std::uintptr_t address) { return engine.release(reinterpret_cast<void*>(address)); }
  bool adopt(std::uintptr_t address, std::size_t bytes, std::uint64_t stream = kStream) {
    return engine.adopt(reinterpret_cast<void*>(address), bytes, stream);
  }
  bool shared(std::uintptr_t address, std::uint64_t stream) {
    return engine.shared(reinterpret_cast<void*>(address), stream);
  }
  bool owns(std::uintptr_t address) { return engine.owns(reinterpret_cast<void*>(address)); }
  std::uint64_t missed(Miss reason) {
    return engine.statistics().counters.misses[static_cast<int>(reason)];
  }
};

inline const std::vector<PlannedRequest> kTwoSlots = {slot(100, 2, 0), slot(200, 2, 1000)};

}  // namespace pgmo::test
