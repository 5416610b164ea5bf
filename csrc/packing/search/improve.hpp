// Improvement search: better packings from a given one, until the deadline.

#pragma once

#include "packing/search/monitor.hpp"

namespace pgmo::packing {

struct Options {
  int threads = 1;
  std::uint64_t seed = 0;
};

// What a search came to. Its offsets are determined by problem, incumbent, seed and number of
// threads if it ended by itself rather than by the monitor.
struct Improvement {
  Offsets offsets;
  Bytes arena = 0;
};

// Offers every improvement to the monitor, returns soon after monitor.stopped(). Never worse than
// the incumbent.
Improvement improve(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                    const Options& options);

}  // namespace pgmo::packing
