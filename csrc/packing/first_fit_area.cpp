// First fit by falling size times lifetime: what occupies most of the time-space first, each at
// the lowest offset free for all of its lifetime.

#include "packing/algorithms.hpp"
#include "packing/occupancy.hpp"
#include "packing/preference.hpp"

namespace pgmo::packing {

Offsets first_fit_area(const Ring& ring) {
  return fill_first_fit(ring, by_falling(ring, [&](BlockId block) { return area(ring, block); }));
}

}  // namespace pgmo::packing
