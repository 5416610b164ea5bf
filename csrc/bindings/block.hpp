// Owners of blocks as Python objects.

#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "engine/engine.hpp"

namespace pgmo {

// An object whose end releases the block, and then lets go of `memory`, which may be empty.
pybind11::object make_block(const std::shared_ptr<Engine>& engine, void* address,
                            const pybind11::object& memory);

}  // namespace pgmo
