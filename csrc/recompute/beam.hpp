// Finds reruns by a beam search over sets of needed values, from the end of the step backwards.
//
//   moment     ...  40        41          42           43     <- begins here
//   needed         4 8       4 8 31      4 31        45       after each
//                             \ run 1 again before 42: it reads 4 and writes 5, so 5 is not needed
//
// Later operations depend only on the values that are needed at a moment. So the cheapest path to a
// set is enough, and the beam keeps sets with low cost, few bytes, or a mix of both. If the beam
// loses no set, the reruns are optimal.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "recompute/reruns.hpp"

namespace pgmo::recompute {

// Return reruns whose peak is at most `budget` bytes. `movable` marks the forward operations that
// may run again. The beam keeps at most `width` sets; a `width` below 3 counts as 3. Return nullopt
// if no reruns are found, or when `stop` returns true.
std::optional<Reruns> beam_reruns(const Replay& replay, const std::vector<std::uint8_t>& movable,
                                  Bytes budget, std::size_t width,
                                  const std::function<bool()>& stop);

}  // namespace pgmo::recompute
