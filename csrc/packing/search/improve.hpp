// Improvement search: improves a given packing until the deadline.

#pragma once

#include "packing/search/monitor.hpp"

namespace pgmo::packing {

struct Options {
  int threads = 1;
  std::uint64_t seed = 0;
};

// Result of a search. The offsets are determined by problem, incumbent, seed and number of threads,
// if the search ended by itself and not by the monitor.
struct Improvement {
  Offsets offsets;
  Bytes arena = 0;
};

// Offer every improvement to the monitor; return soon after monitor.stopped(). The result is never
// worse than the incumbent.
Improvement improve(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                    const Options& options);

}  // namespace pgmo::packing
