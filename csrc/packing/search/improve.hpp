// Improvement search: improves a given packing in rounds of parallel search. It ends when the
// packing meets the bound, the search makes no more progress, or the deadline passes.
//
//    thread 0   [ orders | ejection ]     [ ejection | orders ]     ...
//    thread 1   [ ejection | orders ]     [ orders | ejection ]
//                                    best                      best
//
// A round lasts a number of units of work, not of seconds, and threads exchange results only
// between rounds. So the results of a round depend only on ring, incumbent, seed and number of
// threads. Time only limits the number of rounds. When a thread meets the bound, the other threads
// continue to the same number of units. If several threads meet the bound, the thread with the
// fewest units wins; of threads with equal units, the first wins.

#pragma once

#include "packing/search/window_search.hpp"

namespace pgmo::packing {

// Improve the incumbent; see `search_windows`.
Improvement improve(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                    const SearchOptions& options);

}  // namespace pgmo::packing
