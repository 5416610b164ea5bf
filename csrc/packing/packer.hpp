// Packers: each is an order in which the skyline prefers blocks.

#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "packing/problem.hpp"

namespace pgmo::packing {

// Offsets are multiples of the alignment because all sizes are and every packer only ever stacks
// blocks on one another.
using Offsets = std::vector<Offset>;

// Callback, polled during packing: true stops it.
using Stop = std::function<bool()>;

struct Packer {
  std::string_view name;
  std::vector<BlockId> (*order)(const Ring&);  // the most preferred block first
};

// All packers, fastest first: the order in which a portfolio should try them.
std::span<const Packer> packers();

// The packer of that name, or nullptr.
const Packer* find_packer(std::string_view name);

// Every block at its offset: by the packer, or, once `stop` says so, stacked above what it has
// placed.
Offsets pack(const Packer& packer, const Ring& ring, const Stop& stop = {});

// The smallest arena that holds all blocks at these offsets, without those that are kUnplanned.
Bytes arena_of(const Ring& ring, const Offsets& offsets);

}  // namespace pgmo::packing
