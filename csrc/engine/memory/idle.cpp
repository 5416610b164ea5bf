// Pages of arenas in which nothing lives, for as long as nobody is served.
//
//     arena    ░░░░░░░▓▓░░░░░░░░░░░▓▓▓▓░░░
//     pages    │    │    │    │    │    │
//              └──────┘    └──────┘            go back to the system, and come again as zeros
//
// An arena of the framework's stays resident once it was touched. Between two training steps an
// evaluation needs memory of its own, and both together are more than either. A retired arena that
// one block keeps alive would stay whole.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "engine/engine.hpp"

namespace pgmo {

namespace {

// Whole pages between two addresses.
Bytes discard(std::uintptr_t begin, std::uintptr_t end) noexcept {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  begin = (begin + page - 1) / page * page;
  end = end / page * page;
  if (begin >= end) return 0;
  // Where the system refuses, they stay as they are.
  const int refused = ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  return refused == 0 ? static_cast<Bytes>(end - begin) : 0;
}

}  // namespace

// The lock is held all the time: a retired arena goes back when its last block dies, on whatever
// thread, and its addresses may be somebody else's then.
Bytes Engine::return_idle() {
  const std::lock_guard<Spinlock> guard(lock_);
  std::vector<pages::Extent> living;
  visit_slots([&](std::uintptr_t address, Bytes bytes) { living.push_back({address, bytes}); });
  std::sort(living.begin(), living.end(), [](const pages::Extent& one, const pages::Extent& other) {
    return one.address < other.address;
  });
  Bytes returned = 0;
  const auto between_living = [&](const pgmo_arena& arena) {
    std::uintptr_t idle_from = address_of(arena.base);
    for (const pages::Extent& block : living) {
      if (!contains(arena, block.address)) continue;
      returned += discard(idle_from, block.address);
      idle_from = block.address + static_cast<std::uintptr_t>(block.bytes);
    }
    returned += discard(idle_from, address_of(arena.base) + arena.bytes);
  };
  arenas_.for_each_retired(between_living);
  if (!has(PGMO_SERVING)) {
    arenas_.for_each([&](const Arenas::Segment& segment) { between_living(segment.arena); });
  }
  return returned;
}

}  // namespace pgmo
