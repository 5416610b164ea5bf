// What idles in arenas of the host's memory while nobody is served: its pages can go to others.
//
//     arena    [ slot ][    idle     ][ late block ][ idle ]
//     pages     #  #  #  .  .  .  .  #  #  #  #  #  .  .       . back with the system
//
// The addresses stay, and get pages of zeros when slots are used again.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/engine.hpp"

namespace pgmo {

namespace {

using Guard = std::lock_guard<Spinlock>;
using Span = std::pair<std::uintptr_t, std::uintptr_t>;

// Whole pages alone; a page that a block shares with what idles stays.
Bytes discard(std::uintptr_t begin, std::uintptr_t end) noexcept {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  begin = (begin + page - 1) / page * page;
  end = end / page * page;
  if (begin >= end) return 0;
  return madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED) == 0
             ? static_cast<Bytes>(end - begin)
             : 0;
}

}  // namespace

Bytes Engine::discard_idle_host_memory() {
  std::vector<Span> alive;
  const auto add = [&](std::uintptr_t address, Bytes bytes) {
    alive.emplace_back(address, address + static_cast<std::uintptr_t>(bytes));
  };
  const Guard guard(lock_);
  if (!mode_when_paused_ || mode_.load(std::memory_order_relaxed) != 0) return 0;
  if (!arenas_.attached()) return 0;
  if (replayer_ != nullptr) {
    replayer_->for_each_living([&](SlotIndex request, Offset offset, Bytes bytes) {
      add(arenas_.address(key_stream(replayer_->plan().slot(request).key), offset), bytes);
    });
  }
  arenas_.for_each_late(here_.late, add);
  std::sort(alive.begin(), alive.end());
  Bytes discarded = 0;
  arenas_.for_each([&](const Arenas::Segment& segment) {
    if (segment.range != nullptr || segment.spilled) return;
    std::uintptr_t free_from = address_of(segment.arena.base);
    const std::uintptr_t arena_end = free_from + segment.arena.bytes;
    for (const auto& [begin, end] : alive) {
      if (begin >= arena_end || end <= free_from) continue;
      if (begin > free_from) discarded += discard(free_from, begin);
      free_from = end;
    }
    if (free_from < arena_end) discarded += discard(free_from, arena_end);
  });
  return discarded;
}

}  // namespace pgmo
