// An engine, and arenas whose addresses nobody reads or writes.

#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.hpp"
#include "rows.hpp"

namespace pgmo::test {

inline constexpr std::uint64_t kStream = 0x5eed;
inline const std::vector<std::uint64_t> kStreams = {kStream};

struct Fixture {
  Engine engine;
  int given_back = 0;

  static std::uintptr_t base(int arena) {
    return 0x10000000u + static_cast<std::uintptr_t>(arena) * 0x1000000u;
  }
  void attach(int arena, std::size_t bytes = 10'000) {
    engine.attach_arena({reinterpret_cast<void*>(base(arena)), bytes,
                         [](void* count) { ++*static_cast<int*>(count); }, &given_back});
  }
  Engine::PlanId add(const std::vector<PlannedRequest>& rows, Bytes arena = 10'000) {
    return engine.add_plan(rows, kStreams, arena, 1);
  }
  void serve(const std::vector<PlannedRequest>& rows) {
    attach(0);
    add(rows);
    engine.start_serving();
  }
  std::uintptr_t allocate(std::size_t bytes, std::uint64_t stream = kStream) {
    return reinterpret_cast<std::uintptr_t>(engine.allocate(bytes, stream));
  }
  bool release(std::uintptr_t address) { return engine.release(reinterpret_cast<void*>(address)); }
  bool adopt(std::uintptr_t address, std::size_t bytes) {
    return engine.adopt(reinterpret_cast<void*>(address), bytes, kStream);
  }
  std::uint64_t missed(Miss reason) {
    return engine.statistics().counters.misses[static_cast<int>(reason)];
  }
};

inline const std::vector<PlannedRequest> kTwoSlots = {slot(100, 2, 0), slot(200, 2, 1000)};

}  // namespace pgmo::test
