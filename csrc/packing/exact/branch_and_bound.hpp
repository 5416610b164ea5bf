// Exact search. It proves that a packing is optimal, or gives a lower bound of all packings.
// Several searches of one window compete:
//
//    height ^  incumbent ----.        Exact search is quick with some orders and hopeless with
//           |        x  try  '---.    others. So each racer tries one order after another, each for
//           |      x               |  a number of nodes from Luby's sequence. Half of the racers
//           |    found ____________|  try the lower bound itself. The other racers try
//           |    bound x x x x x      halfway between bound and incumbent, or higher after a
//           +--------------------->   failure.
//
// Racers run on several threads. They exchange results only between rounds of a fixed number of
// nodes. So the results do not depend on the speed of the threads.

#pragma once

#include "packing/search/window_search.hpp"

namespace pgmo::packing {

// Improve the incumbent and raise the bound until both are equal; see `search_windows`.
Improvement branch_and_bound(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                             const SearchOptions& options);

}  // namespace pgmo::packing
