// The graphs of one pool, and the places of its segments.
//
// A place is *alive* if a block lay there at the end of the last capture, and *open* while it has
// contents for a later graph of the chain: see chains.hpp.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "adapters/cuda/graphs/driver.hpp"
#include "adapters/cuda/graphs/mappings.hpp"

namespace pgmo::graphs {

using PoolId = std::pair<std::uint64_t, std::uint64_t>;
using GraphId = std::uint64_t;

struct LiveBlock {
  Address address;
  std::size_t bytes;

  bool operator==(const LiveBlock&) const = default;
};

struct GraphCapture {
  GraphId graph;
  std::vector<GraphPlace*> alive = {};   // at its end
  std::vector<GraphPlace*> closes = {};  // an earlier capture left these alive, this one freed them
};

struct Chain {
  std::size_t open = 0;  // number of its places that are
  std::map<Address, std::unique_ptr<Segment>> segments = {};
  std::vector<GraphCapture> captures = {};
  std::vector<LiveBlock> living = {};  // at the end of the last capture
  bool capturing = false;
  bool apart = false;                 // shares nothing from now on
  bool undecided = false;             // some of its places are
  std::map<Stream, Event> last = {};  // last replays
  std::vector<Chain*> partners = {};  // chains with a common page
  std::size_t version = 0;            // of the mappings, for which `partners` holds
};

struct SharingFigures {
  std::size_t held;    // bytes of pages
  std::size_t mapped;  // bytes of segments
  std::size_t moves;   // places that got a page of their own
  std::size_t waits;   // for replays on other streams
  std::size_t lent;    // pages given back to the device between replays
};

template <typename Visit>
void for_each_place(Chain& chain, Visit&& visit) {
  for (auto& [base, segment] : chain.segments) {
    for (GraphPlace& place : segment->places) visit(place);
  }
}

// Return the places under blocks, sorted.
inline std::vector<GraphPlace*> places_under(Chain& chain, const std::vector<LiveBlock>& blocks,
                                             std::size_t page) {
  std::vector<GraphPlace*> all;
  for (const LiveBlock& block : blocks) {
    auto at = chain.segments.upper_bound(block.address);
    if (at == chain.segments.begin() || block.bytes == 0) continue;
    Segment& segment = *(--at)->second;
    const std::size_t first = (block.address - segment.base) / page;
    const std::size_t last = (block.address + block.bytes - 1 - segment.base) / page;
    for (std::size_t next = first; next <= last && next < segment.places.size(); ++next) {
      all.push_back(&segment.places[next]);
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Return whether a chain that is being captured may use the page.
inline bool may_share(const GraphPage& page, const Chain& chain) {
  return std::none_of(page.places.begin(), page.places.end(), [&](const GraphPlace* place) {
    return place->chain == &chain || place->own || place->open || place->undecided ||
           place->chain->capturing;
  });
}

// Return whether a temporary that leaves its page may move to this one: it has nothing but
// temporaries of other chains, so it is never open.
inline bool suits_temporary(const GraphPage& page, const GraphPlace& temporary) {
  return may_share(page, *temporary.chain) &&
         std::none_of(page.places.begin(), page.places.end(),
                      [](const GraphPlace* place) { return place->kept || place->chain->apart; });
}

// Return whether nothing has to stay on the page until the next replay.
inline bool is_idle(const GraphPage& page) {
  return std::none_of(page.places.begin(), page.places.end(), [](const GraphPlace* place) {
    return place->has_contents() || place->alive || place->own;
  });
}

inline void set_open(GraphPlace& place, bool open) noexcept {
  if (place.open == open) return;
  place.open = open;
  place.chain->open += open ? 1 : ~std::size_t{0};
}

}  // namespace pgmo::graphs
