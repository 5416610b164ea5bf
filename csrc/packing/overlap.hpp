// Checks whether blocks that are alive at the same time share bytes. The check sweeps over time and
// shares no code with the packers.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "types.hpp"

namespace pgmo::packing {

// Blocks with offsets, as columns of equal length. Each block lives during ticks [begin, end) on
// bytes [low, high); no range is empty.
struct PlacedBlocks {
  std::span<const Tick> begin;
  std::span<const Tick> end;
  std::span<const Offset> low;
  std::span<const Offset> high;
};

// Return two overlapping blocks: the first request that overlaps an older live block, and that
// block. Return nullopt if no blocks overlap. Throws std::bad_alloc.
std::optional<std::pair<std::size_t, std::size_t>> first_overlap(const PlacedBlocks& blocks);

}  // namespace pgmo::packing
