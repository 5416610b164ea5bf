// The best-fit heuristic of Sekiyama et al. 2018, "Profile-guided memory optimization for deep
// neural networks" (arXiv 1804.10001), section 3.2: on the lowest line, the longest lifetime.

#include "packing/algorithms.hpp"
#include "packing/preference.hpp"
#include "packing/skyline.hpp"

namespace pgmo::packing {

Offsets best_fit(const Ring& ring, const Stop& stop) {
  return fill_skyline(ring, stop,
                      by_falling(ring, [&](BlockId block) { return ring.lifetime[block]; }));
}

}  // namespace pgmo::packing
