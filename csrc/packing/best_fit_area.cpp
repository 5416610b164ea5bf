// The skyline with another preference than best_fit: on the lowest line, the largest area, size
// times lifetime. It closes some gaps that the longest lifetime leaves.

#include "packing/algorithms.hpp"
#include "packing/preference.hpp"
#include "packing/skyline.hpp"

namespace pgmo::packing {

Offsets best_fit_area(const Ring& ring, const Stop& stop) {
  return fill_skyline(ring, stop,
                      by_falling(ring, [&](BlockId block) { return area(ring, block); }));
}

}  // namespace pgmo::packing
