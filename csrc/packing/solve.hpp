// Runs an anytime method beside the caller, who hears of its progress and may end it.
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

// Called in the caller's thread every few milliseconds with what is new, often nothing. Returns
// whether to go on. May throw: the search is then stopped and the exception passed on.
using Listener = std::function<bool(std::span<const Progress>)>;

struct Outcome {
  Offsets offsets;
  Bytes bound = 0;           // the best lower bound that was proved
  bool interrupted = false;  // the listener asked for the end
};

// `method` is "search" or "branch-and-bound". `incumbent` must be a packing of the problem and
// `bound` a lower bound of all packings (0 if none is known). The time limit counts from the call.
// Throws std::invalid_argument for an unknown method.
Outcome solve(std::string_view method, const Problem& problem, const Offsets& incumbent,
              Bytes bound, double time_limit, const Options& options, const Listener& listener);

}  // namespace pgmo::packing
