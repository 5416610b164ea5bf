// Exact search. It proves that a packing is optimal, or gives a lower bound of all packings.

#pragma once

#include "packing/search/improve.hpp"

namespace pgmo::packing {

// Improve the incumbent and raise the bound. Offer every improvement to the monitor. Return when
// arena and bound are equal, or soon after monitor.stopped(). The result is never worse than the
// incumbent.
Improvement branch_and_bound(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                             const Options& options);

}  // namespace pgmo::packing
