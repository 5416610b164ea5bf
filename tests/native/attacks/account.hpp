// The statistics that the engine must report, as its client counts them.

#pragma once

#include <cstdint>

#include "engine/engine.hpp"
#include "oracle.hpp"

namespace pgmo::test {

struct Account {
  std::uint64_t requests = 0;
  std::uint64_t requested_bytes = 0;
  std::uint64_t hits = 0;
  std::uint64_t hit_bytes = 0;
  Level slots;
  Level fallback;

  void requested(std::uint64_t bytes) {
    ++requests;
    requested_bytes += bytes;
  }
  void hit(std::uint64_t bytes) {
    ++hits;
    hit_bytes += bytes;
  }
  void reset_peaks() {
    for (Level* level : {&slots, &fallback}) level->peak = level->live;
  }

  void compare(Engine& engine, const Oracle& oracle) const {
    const Statistics all = engine.statistics();
    std::uint64_t misses = 0;
    for (const std::uint64_t reason : all.counters.misses) misses += reason;
    require_equal(all.counters.hits + misses, all.counters.requests, "hits and misses");
    require_equal(all.counters.requests, requests, "requests");
    require_equal(all.counters.requested_bytes, requested_bytes, "requested bytes");
    require_equal(all.counters.hits, hits, "hits");
    require_equal(all.counters.hit_bytes, hit_bytes, "hit bytes");
    compare(all.slots, slots, "live slot bytes", "peak slot bytes");
    compare(all.fallback, fallback, "live fallback bytes", "peak fallback bytes");
    require_equal(value(all.arena_bytes), oracle.bytes(), "arena bytes");
    require_equal(all.arenas, oracle.count(), "arenas");
  }

  // Compare after all blocks are freed and the arenas detached.
  static void compare_end(Engine& engine, const Oracle& oracle) {
    const Statistics all = engine.statistics();
    require_equal(all.late_now, 0, "late blocks at the end");
    require_equal(value(all.slots.live), 0, "live slot bytes at the end");
    require_equal(engine.living().size(), 0, "blocks that the engine thinks alive at the end");
    require_equal(oracle.living(), 0, "living blocks at the end");
    require_equal(oracle.count(), 0, "arenas that were never given back");
  }

 private:
  static std::uint64_t value(Bytes bytes) { return static_cast<std::uint64_t>(bytes); }
  static void compare(const Level& engine, const Level& account, const char* live,
                      const char* peak) {
    require_equal(value(engine.live), value(account.live), live);
    require_equal(value(engine.peak), value(account.peak), peak);
  }
};

}  // namespace pgmo::test
