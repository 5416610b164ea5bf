// Packers: each defines the order in which the skyline prefers blocks.

#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "packing/problem.hpp"

namespace pgmo::packing {

// Offsets are multiples of the alignment, because all sizes are, and packers only stack blocks on
// each other.
using Offsets = std::vector<Offset>;

// Callback, polled during packing: true stops it.
using Stop = std::function<bool()>;

struct Packer {
  std::string_view name;
  std::vector<BlockId> (*order)(const Ring&);  // the most preferred block first
};

// Return all packers, fastest first, which is the order in which a portfolio should try them.
std::span<const Packer> packers();

// Return the packer of that name, or nullptr.
const Packer* find_packer(std::string_view name);

// Return an offset for every block. After `stop` returns true, the remaining blocks are stacked on
// top.
Offsets pack(const Packer& packer, const Ring& ring, const Stop& stop = {});

// Return the smallest arena that holds all blocks at these offsets, ignoring kUnplanned ones.
Bytes arena_of(const Ring& ring, const Offsets& offsets);

}  // namespace pgmo::packing
