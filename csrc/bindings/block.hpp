// Owners of blocks as Python objects.

#pragma once

#include <pybind11/pybind11.h>

#include "engine/engine.hpp"

namespace pgmo {

// Return an object that releases the block when it is destroyed, and `memory`, which may be empty,
// afterwards. The engine is never destroyed.
pybind11::object make_block(Engine& engine, void* address, const pybind11::object& memory);

}  // namespace pgmo
