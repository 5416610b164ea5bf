// Packers. Each packer defines the order in which the skyline prefers blocks.

#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "packing/problem.hpp"

namespace pgmo::packing {

// Offsets by block, in the unit of the ring's sizes. Sizes are multiples of the alignment, and
// packers only stack blocks on each other. So offsets are multiples of the alignment, too.
using Offsets = std::vector<Offset>;

// Polled during packing. If it returns true, packing stops.
using Stop = std::function<bool()>;

struct Packer {
  std::string_view name;
  std::vector<BlockId> (*order)(const Ring&);  // the most preferred block first
};

// Return all packers, the fastest first. A portfolio should try them in this order.
std::span<const Packer> packers();

// Return the packer of that name, or nullptr.
const Packer* find_packer(std::string_view name);

// Return an offset for every block. Once `stop` returns true, stack the remaining blocks on top.
Offsets pack(const Packer& packer, const Ring& ring, const Stop& stop = {});

// Return the smallest arena that holds all blocks at these offsets, except those at kUnplanned.
Bytes arena_of(const Ring& ring, const Offsets& offsets);

}  // namespace pgmo::packing
