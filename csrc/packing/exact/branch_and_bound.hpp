// Exact search: proves that a packing is the best there is, or how much better one might be.

#pragma once

#include "packing/search/improve.hpp"

namespace pgmo::packing {

// Offers every improvement and raises the bound; returns when they meet, or soon after
// monitor.stopped(). Never worse than the incumbent.
Improvement branch_and_bound(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                             const Options& options);

}  // namespace pgmo::packing
