// The text of an out-of-memory error: torch's words first, for programs look for them, then what
// pgmo knows.

#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "engine/pgmo_engine.h"
#include "plugin/device_memory.hpp"

namespace pgmo::plugin {

// Torch makes a RuntimeError of it: only its own exception becomes a torch.OutOfMemoryError, and
// throwing that takes torch's headers.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Bytes asked for, and held by captured graphs. `engine` may be null; `advice` is appended.
std::string describe_out_of_memory(const DeviceMemory& memory, std::size_t bytes,
                                   std::size_t graphs, const pgmo_engine_statistics* engine,
                                   const std::string& advice);

}  // namespace pgmo::plugin
