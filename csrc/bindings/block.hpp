// Owners of blocks as Python objects.

#pragma once

#include <pybind11/pybind11.h>

#include "engine/engine.hpp"

namespace pgmo {

// Return an object whose destruction releases the block, and then `memory`, which may be empty. The
// engine must outlive it.
pybind11::object make_block(Engine& engine, void* address, const pybind11::object& memory);

}  // namespace pgmo
