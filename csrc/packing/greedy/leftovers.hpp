// What a packer that runs out of time leaves behind, and how it gets a place all the same.
//
//   offset ^ [ c ] [  d  ]   [ e ]     Above everything that is placed, shelves: a block goes on
//          | [    b    ]  [ f  ]       the free one that is just high enough, else on a new one.
//          |########################   No proof of anything, but valid, and at once.
//          +--------------------------> ticks

#pragma once

#include <functional>

#include "packing/problem.hpp"

namespace pgmo::packing {

// Asked now and then whether to stop.
using Stop = std::function<bool()>;

// Gives every block whose offset is kUnplanned one. O(n log n).
void shelve_leftovers(const Ring& ring, std::vector<Offset>& offsets);

}  // namespace pgmo::packing
