// The skyline with the earliest request on the lowest line: blocks lie in the order in which the
// program asks for them, from the tick of the least load on.

#include "packing/algorithms.hpp"
#include "packing/preference.hpp"
#include "packing/skyline.hpp"

namespace pgmo::packing {

Offsets best_fit_start(const Ring& ring, const Stop& stop) {
  return fill_skyline(ring, stop,
                      by_falling(ring, [&](BlockId block) { return -ring.begin[block]; }));
}

}  // namespace pgmo::packing
