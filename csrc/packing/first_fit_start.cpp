// First fit in the order of requests, from the tick of the least load on: what an allocator does
// that has to answer at once, except that blocks alive at the beginning are known there.

#include "packing/algorithms.hpp"
#include "packing/occupancy.hpp"
#include "packing/preference.hpp"

namespace pgmo::packing {

Offsets first_fit_start(const Ring& ring) {
  return fill_first_fit(ring, by_falling(ring, [&](BlockId block) { return -ring.begin[block]; }));
}

}  // namespace pgmo::packing
