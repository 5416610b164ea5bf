// Functions on an arena: a memory range that the engine uses and does not own (pgmo_engine.h).

#pragma once

#include <cstdint>

#include "engine/pgmo_engine.h"

namespace pgmo {

inline std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

inline bool contains(const pgmo_arena& arena, std::uintptr_t address) noexcept {
  return address - address_of(arena.base) < arena.bytes;  // wraps around below the base
}

// Call the arena's `give_back`, if it has one. The caller must not hold the engine's lock, because
// `give_back` may call the framework.
inline void give_back(const pgmo_arena& arena) noexcept {
  if (arena.give_back != nullptr) arena.give_back(arena.context);
}

}  // namespace pgmo
