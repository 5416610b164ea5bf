// Reduces the problem to windows and searches the window that needs the most bytes:
//
//    arena ^   +---+              Windows never overlap in time, so each is packed separately. Only
//          |   |   | +---+        the window that needs most matters: it is searched until another
//    bound |---|---|-|---|-+---+  window needs more, or until the search makes no more progress.
//          |   | 0 | | 1 | | 2 |  Windows at the bound are never searched.
//          +---+---+-+---+-+---+> ticks

#include "packing/search/improve.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "packing/exact/window.hpp"
#include "packing/search/rounds.hpp"

namespace pgmo::packing {
namespace {

// A window and its best packing so far, in units.
struct PackedWindow {
  const Window* window;
  Offsets offsets;
  Offset height;
  std::unique_ptr<Rounds> rounds;  // created when the window is first searched

  Bytes arena() const { return window->bytes(height); }
};

}  // namespace

Improvement improve(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                    const Options& options) {
  Improvement best{incumbent, arena_of(ring, incumbent)};
  const Bytes bound = std::max(monitor.bound(), ring.max_load);
  if (ring.blocks() < 2 || best.arena <= bound) return best;

  const Reduction reduction = reduce(ring, bound);
  std::vector<PackedWindow> places;
  for (const Window& window : reduction.windows) {
    Offsets offsets = push_down(window, incumbent);
    const Offset height = height_of(window, offsets);
    places.push_back({&window, std::move(offsets), height, nullptr});
  }
  const auto assembled = [&](const PackedWindow* other, const Offsets& offsets) {
    std::vector<const Offsets*> parts;
    for (const PackedWindow& place : places) {
      parts.push_back(&place == other ? &offsets : &place.offsets);
    }
    return assemble(ring, reduction, parts);
  };
  while (true) {
    const auto highest = std::max_element(
        places.begin(), places.end(),
        [](const PackedWindow& a, const PackedWindow& b) { return a.arena() < b.arena(); });
    const Bytes needed = std::max(reduction.arena, highest == places.end() ? 0 : highest->arena());
    if (needed < best.arena) {
      best.offsets = assembled(nullptr, {});
      best.arena = arena_of(ring, best.offsets);
      monitor.offer(best.offsets, best.arena);
    }
    if (best.arena <= bound || highest == places.end() || monitor.stopped()) break;
    PackedWindow& place = *highest;
    const Window& window = *place.window;
    if (place.rounds == nullptr) {
      const auto offer = [&](const Offsets& offsets, Bytes height) {
        if (window.bytes(height) >= monitor.arena()) return;
        const Offsets whole = assembled(&place, offsets);
        monitor.offer(whole, arena_of(ring, whole));
      };
      place.rounds =
          std::make_unique<Rounds>(ring_of(window), place.offsets,
                                   (bound - window.base) / window.unit, monitor, options, offer);
    }
    if (place.rounds->done()) break;
    place.rounds->run();
    place.offsets = place.rounds->offsets();
    place.height = place.rounds->arena();
  }
  return best;
}

}  // namespace pgmo::packing
