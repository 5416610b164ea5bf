#include "packing/search/window_search.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace pgmo::packing {
namespace {

struct SearchedWindow : PackedWindow {
  std::unique_ptr<WindowSearch> search = nullptr;  // created when the window is first searched

  Bytes arena() const { return window.bytes(height); }
  Bytes bound() const { return window.bytes(search ? search->bound() : window.load); }
};

}  // namespace

Improvement search_windows(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                           const MakeSearch& make) {
  Improvement best{incumbent, arena_of(ring, incumbent)};
  const Reduction reduction = reduce(ring, monitor.bound());
  std::vector<SearchedWindow> places;
  for (const Window& window : reduction.windows) {
    Offsets offsets = push_down(window, incumbent);
    const Bytes height = height_of(window, offsets);
    places.push_back({{window, std::move(offsets), height}});
  }
  const auto assembled = [&](const SearchedWindow* other, const Offsets& offsets) {
    std::vector<const Offsets*> parts;
    for (const SearchedWindow& place : places)
      parts.push_back(&place == other ? &offsets : &place.offsets);
    return assemble(ring, reduction, parts);
  };
  while (true) {
    Bytes needed = std::max(monitor.bound(), reduction.arena), bound = reduction.arena;
    SearchedWindow* highest = nullptr;
    for (SearchedWindow& place : places) {
      bound = std::max(bound, place.bound());
      if (place.arena() <= needed) continue;
      needed = place.arena();
      highest = &place;
    }
    monitor.raise_bound(std::min(bound, needed));
    if (needed < best.arena) {
      best.offsets = assembled(nullptr, {});
      best.arena = arena_of(ring, best.offsets);
      monitor.offer(best.offsets, best.arena);
    }
    if (highest == nullptr || monitor.stopped()) break;
    if (highest->search == nullptr) {
      highest->search = make(*highest, [&, highest](const Offsets& offsets, Bytes height) {
        if (highest->window.bytes(height) >= monitor.arena()) return;
        const Offsets whole = assembled(highest, offsets);
        monitor.offer(whole, arena_of(ring, whole));
      });
    }
    if (highest->search->done()) break;
    highest->search->run();
    highest->offsets = highest->search->offsets();
    highest->height = highest->search->height();
  }
  return best;
}

}  // namespace pgmo::packing
