// A chain: the graphs of one pool, and the places of its segments.
//
// A place (one page of addresses) is *alive* if a block lay there at the end of the last capture.
// It is *open* while it has contents for a later graph of the chain: see chains.hpp. The lock of
// `Chains` guards all types here. Sizes are in bytes, unless noted.

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

using PoolId = std::pair<std::uint64_t, std::uint64_t>;  // torch's id of a pool
using GraphId = std::uint64_t;                           // number of a graph, from Python

struct LiveBlock {
  Address address;
  std::size_t bytes;

  bool operator==(const LiveBlock&) const = default;
};

// A capture of the chain, and the places that it leaves alive or frees.
struct GraphCapture {
  GraphId graph;
  std::vector<GraphPlace*> alive = {};   // places alive at the end of the capture
  std::vector<GraphPlace*> closes = {};  // places alive after an earlier capture, freed in this one
};

struct Chain {
  std::size_t open = 0;  // number of open places
  std::map<Address, std::unique_ptr<Segment>> segments = {};
  std::vector<GraphCapture> captures = {};
  std::vector<LiveBlock> living = {};  // live blocks at the end of the last capture
  bool capturing = false;
  bool apart = false;                 // the chain shares no page from now on
  bool undecided = false;             // some of its places are undecided
  std::map<Stream, Event> last = {};  // by stream: event after the last replay on the stream
  std::vector<Chain*> partners = {};  // chains that share a page with this chain
  std::size_t version = 0;            // Mappings::version() when `partners` was computed
};

// Bytes are current, counts are since the start.
struct SharingFigures {
  std::size_t held;    // bytes of pages that the device has given
  std::size_t mapped;  // bytes of segments
  std::size_t moves;   // places that were moved to another page
  std::size_t waits;   // waits of a replay for a replay on another stream
  std::size_t lent;    // pages given back to the device between replays
};

template <typename Visit>
void for_each_place(Chain& chain, Visit&& visit) {
  for (auto& [base, segment] : chain.segments) {
    for (GraphPlace& place : segment->places) visit(place);
  }
}

// Return the places that these blocks cover, sorted by pointer. `page`: bytes of a page.
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

// Return whether a place of this chain may share the page with the places where the page is mapped.
inline bool may_share(const GraphPage& page, const Chain& chain) {
  return std::none_of(page.places.begin(), page.places.end(), [&](const GraphPlace* place) {
    return place->chain == &chain || place->own || place->open || place->undecided ||
           place->chain->capturing;
  });
}

// Return whether a temporary may move to this page: only temporaries of other chains lie there.
inline bool suits_temporary(const GraphPage& page, const GraphPlace& temporary) {
  return may_share(page, *temporary.chain) &&
         std::none_of(page.places.begin(), page.places.end(),
                      [](const GraphPlace* place) { return place->kept || place->chain->apart; });
}

// Return whether the page can be lent: neither a later replay nor the program needs its contents.
inline bool is_idle(const GraphPage& page) {
  return std::none_of(page.places.begin(), page.places.end(), [](const GraphPlace* place) {
    return place->has_contents() || place->alive || place->own;
  });
}

// Set whether the place is open, and count it in its chain.
inline void set_open(GraphPlace& place, bool open) noexcept {
  if (place.open == open) return;
  place.open = open;
  place.chain->open += open ? 1 : ~std::size_t{0};
}

}  // namespace pgmo::graphs
