// Runs an anytime method in another thread. The caller gets the method's progress and may stop it.
//
//    caller   solve() --- listen --- listen --- listen ---> Outcome
//                 \         ^           ^          /
//    another       `-- search ==[offer]==[raise]==´
//    thread

#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "packing/search/improve.hpp"

namespace pgmo::packing {

// Called in the caller's thread every few milliseconds with new progress, which may be empty.
// Returns whether to continue. If the listener throws, the search stops and the exception
// propagates.
using Listener = std::function<bool(std::span<const Progress>)>;

struct Outcome {
  Offsets offsets;
  Bytes bound = 0;           // the best proved lower bound
  bool interrupted = false;  // the listener returned false
};

// Run `method`, "search" or "branch-and-bound". `incumbent` must be a packing of the problem and
// `bound` a lower bound of all packings (0: unknown). The time limit in seconds counts from the
// call. Throws std::invalid_argument for an unknown method.
Outcome solve(std::string_view method, const Problem& problem, const Offsets& incumbent,
              Bytes bound, double time_limit, const SearchOptions& options,
              const Listener& listener);

}  // namespace pgmo::packing
