// Exact search: proves that a packing is optimal, or bounds how much smaller one might be.

#pragma once

#include "packing/search/improve.hpp"

namespace pgmo::packing {

// Offer every improvement to the monitor and raise the bound. Return when the two meet, or soon
// after monitor.stopped(). The result is never worse than the incumbent.
Improvement branch_and_bound(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                             const Options& options);

}  // namespace pgmo::packing
