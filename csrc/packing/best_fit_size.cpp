// The skyline with the largest block on the lowest line, however short it lives: better than the
// longest lifetime where a few large blocks make the peak.

#include "packing/algorithms.hpp"
#include "packing/preference.hpp"
#include "packing/skyline.hpp"

namespace pgmo::packing {

Offsets best_fit_size(const Ring& ring, const Stop& stop) {
  return fill_skyline(ring, stop,
                      by_falling(ring, [&](BlockId block) { return ring.size[block]; }));
}

}  // namespace pgmo::packing
