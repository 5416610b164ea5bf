// First fit by falling lifetime: what stays longest first, at the bottom, each at the lowest offset
// free for all of its lifetime.

#include "packing/algorithms.hpp"
#include "packing/occupancy.hpp"
#include "packing/preference.hpp"

namespace pgmo::packing {

Offsets first_fit_lifetime(const Ring& ring, const Stop& stop) {
  return fill_first_fit(ring, stop,
                        by_falling(ring, [&](BlockId block) { return ring.lifetime[block]; }),
                        Arrival::kFallingLifetime);
}

}  // namespace pgmo::packing
