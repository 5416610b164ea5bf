// The packers, one file each.

#pragma once

#include "packing/packer.hpp"

namespace pgmo::packing {

Offsets best_fit(const Ring& ring, const Stop& stop);
Offsets best_fit_area(const Ring& ring, const Stop& stop);
Offsets best_fit_size(const Ring& ring, const Stop& stop);
Offsets best_fit_start(const Ring& ring, const Stop& stop);
Offsets first_fit_size(const Ring& ring, const Stop& stop);
Offsets first_fit_lifetime(const Ring& ring, const Stop& stop);

}  // namespace pgmo::packing
