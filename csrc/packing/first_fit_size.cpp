// First fit by falling size: the largest block first, each at the lowest offset free for all of
// its lifetime.

#include "packing/algorithms.hpp"
#include "packing/occupancy.hpp"
#include "packing/preference.hpp"

namespace pgmo::packing {

Offsets first_fit_size(const Ring& ring, const Stop& stop) {
  return fill_first_fit(ring, stop,
                        by_falling(ring, [&](BlockId block) { return ring.size[block]; }));
}

}  // namespace pgmo::packing
