// Types shared by all native parts.

#pragma once

#include <cstdint>

namespace pgmo {

using Bytes = std::int64_t;    // a size in bytes
using Offset = std::int64_t;   // a distance from the start of the arena, in bytes
using Tick = std::int64_t;     // the ordinal of a request within its iteration
using BlockId = std::int32_t;  // the index of a block within its profile or problem

// Half-open: [begin, end).
struct Range {
  Offset begin;
  Offset end;
};

constexpr Offset kUnplanned = -1;  // the offset of a block that has no slot

// Return the smallest multiple of `step` that is at least `size`.
constexpr Bytes round_up(Bytes size, Bytes step) noexcept {
  return (size + step - 1) / step * step;
}

}  // namespace pgmo
