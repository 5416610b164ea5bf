// Improvement search: improves a given packing until the deadline.

#pragma once

#include "packing/search/monitor.hpp"

namespace pgmo::packing {

struct Options {
  int threads = 1;
  std::uint64_t seed = 0;
};

// Result of a search. If the search was not stopped, the offsets depend only on the problem, the
// incumbent, the seed and the number of threads.
struct Improvement {
  Offsets offsets;
  Bytes arena = 0;
};

// Improve the incumbent. Offer every improvement to the monitor, and return soon after
// monitor.stopped(). The result is never worse than the incumbent.
Improvement improve(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                    const Options& options);

}  // namespace pgmo::packing
