// Whether what lives at the same time shares bytes: a sweep over time that shares no code with what
// places blocks.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "types.hpp"

namespace pgmo::packing {

// Each lives in ticks [begin, end) on bytes [low, high); no span is empty. The columns are of one
// length.
struct Stays {
  std::span<const Tick> begin;
  std::span<const Tick> end;
  std::span<const Offset> low;
  std::span<const Offset> high;
};

// The first that meets another one, and that one. Throws std::bad_alloc.
std::optional<std::pair<std::size_t, std::size_t>> first_overlap(const Stays& stays);

}  // namespace pgmo::packing
