// What every packer is: a function from a ring to one offset per block.

#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "packing/greedy/leftovers.hpp"
#include "packing/problem.hpp"

namespace pgmo::packing {

// Offsets are multiples of the alignment because all sizes are and every packer only ever stacks
// blocks on one another.
using Offsets = std::vector<Offset>;

// One that is stopped leaves kUnplanned at the blocks that it has not come to.
struct Packer {
  std::string_view name;
  Offsets (*pack)(const Ring&, const Stop&);
};

// All packers, fastest first: the order in which a portfolio should try them.
std::span<const Packer> packers();

// The packer of that name, or nullptr.
const Packer* find_packer(std::string_view name);

// Every block at its offset: by the packer, or, once `stop` says so, above what it has placed.
Offsets pack(const Packer& packer, const Ring& ring, const Stop& stop = {});

// The smallest arena that holds all blocks at these offsets.
Bytes arena_of(const Ring& ring, const Offsets& offsets);

}  // namespace pgmo::packing
