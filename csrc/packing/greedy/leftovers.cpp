#include "packing/greedy/leftovers.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>

namespace pgmo::packing {
namespace {

struct Shelf {
  Rank free_from;
  Offset offset;
  Bytes height;
  bool operator<(const Shelf& other) const { return free_from > other.free_from; }  // first on top
};

}  // namespace

void shelve_leftovers(const Ring& ring, std::vector<Offset>& offsets) {
  std::vector<BlockId> left;
  Offset top = 0;
  for (BlockId block = 0; block < ring.blocks(); ++block) {
    if (offsets[block] == kUnplanned) {
      left.push_back(block);
    } else {
      top = std::max(top, offsets[block] + ring.size[block]);
    }
  }
  std::sort(left.begin(), left.end(), [&](BlockId a, BlockId b) {
    return std::pair(ring.begin[a], a) < std::pair(ring.begin[b], b);
  });
  std::priority_queue<Shelf> taken;
  std::multimap<Bytes, Offset> free;  // by height
  for (const BlockId block : left) {
    while (!taken.empty() && taken.top().free_from <= ring.begin[block]) {
      free.emplace(taken.top().height, taken.top().offset);
      taken.pop();
    }
    Shelf shelf{ring.end[block], top, ring.size[block]};
    // What wraps meets what comes first on the circle, whose shelves may be free again by now.
    const bool wraps = ring.end[block] > ring.ranks;
    const auto fit = wraps ? free.end() : free.lower_bound(ring.size[block]);
    if (fit == free.end()) {
      top += shelf.height;
    } else {
      shelf.offset = fit->second;
      shelf.height = fit->first;
      free.erase(fit);
    }
    offsets[block] = shelf.offset;
    if (!wraps) taken.push(shelf);
  }
}

}  // namespace pgmo::packing
