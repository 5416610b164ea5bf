// Reruns by a beam search over what is needed, from the end of the step to its beginning.
//
//   moment     ...  40        41          42           43     <- begins here
//   needed         4 8       4 8 31      4 31        45       after each
//                             \ run 1 again before 42: 5 is not needed any longer, but 4
//
// What comes later hangs on nothing but the values that are needed at a moment. So of all ways to
// get there the cheapest is enough, and of all sets of values those are kept that cost little, take
// little, or something of both. Where no set is left out the plan is the best that there is; the
// searches by moves (search.hpp, reruns.hpp) go on where there are too many.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "recompute/reruns.hpp"

namespace pgmo::recompute {

// Reruns whose peak is within `budget`, if the search finds any.
//
// `movable` has the forward operations that may run again; `width` sets are kept at most. It ends
// with nothing where `stop` says so.
std::optional<Reruns> beam_reruns(const Replay& replay, const std::vector<std::uint8_t>& movable,
                                  Bytes budget, std::size_t width,
                                  const std::function<bool()>& stop);

}  // namespace pgmo::recompute
