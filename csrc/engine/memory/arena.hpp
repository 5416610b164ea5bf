// An arena as the engine sees it: a memory range that the engine does not own.

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

inline void give_back(const pgmo_arena& arena) noexcept {
  if (arena.give_back != nullptr) arena.give_back(arena.context);
}

}  // namespace pgmo
