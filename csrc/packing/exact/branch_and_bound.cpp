#include "packing/exact/branch_and_bound.hpp"

#include <algorithm>
#include <vector>

#include "packing/exact/race.hpp"
#include "packing/exact/window.hpp"

namespace pgmo::packing {
Improvement branch_and_bound(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                             const Options& options) {
  Improvement best{incumbent, arena_of(ring, incumbent)};
  const Reduction reduction = reduce(ring, monitor.bound());
  std::vector<Race> races;
  for (const Window& window : reduction.windows) {
    races.emplace_back(window, push_down(window, incumbent), monitor.bound(), options);
  }
  // Only the window that needs the most bytes matters: search this window until another window
  // needs more, or until the search is done.
  while (true) {
    Bytes arena = std::max(monitor.bound(), reduction.arena), bound = reduction.arena;
    Race* highest = nullptr;
    for (Race& race : races) {
      bound = std::max(bound, race.bound());
      if (race.arena() > arena) {
        arena = race.arena();
        highest = &race;
      }
    }
    monitor.raise_bound(std::min(bound, arena));
    if (arena < best.arena) {
      std::vector<const Offsets*> windows;
      for (const Race& race : races) windows.push_back(&race.offsets());
      best.offsets = assemble(ring, reduction, windows);
      best.arena = arena_of(ring, best.offsets);
      monitor.offer(best.offsets, best.arena);
    }
    if (highest == nullptr || highest->done() || monitor.stopped()) break;
    highest->run(monitor);
  }
  return best;
}

}  // namespace pgmo::packing
