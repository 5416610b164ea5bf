// Owners of blocks as Python objects.

#pragma once

#include <pybind11/pybind11.h>

#include "engine/engine.hpp"

namespace pgmo {

// Return an object whose destruction releases the block, and then the reference to `memory`, which
// may be empty. The engine must outlive the object. If the object cannot be created, release the
// block and throw error_already_set.
pybind11::object make_block(Engine& engine, void* address, const pybind11::object& memory);

}  // namespace pgmo
