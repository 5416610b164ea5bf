// Settings of the modelled allocator, named as in PYTORCH_CUDA_ALLOC_CONF; sizes in bytes.

#pragma once

#include <array>
#include <cstdint>

#include "types.hpp"

namespace pgmo::baseline {

constexpr Bytes kMiB = Bytes{1} << 20;
constexpr Bytes kUnlimited = Bytes{1} << 62;
constexpr int kIntervals = 16;             // of sizes, each with its own roundup_power2_divisions
constexpr Bytes kSmallSegment = 2 * kMiB;  // bytes, for requests up to 1 MiB

constexpr Bytes round_up(Bytes size, Bytes step) noexcept {
  return (size + step - 1) / step * step;
}

struct Settings {
  bool expandable_segments = false;
  std::array<Bytes, kIntervals> roundup_power2_divisions{};
  Bytes max_split_size = kUnlimited;
  Bytes max_non_split_rounding = 20 * kMiB;
  double garbage_collection_threshold = 0;
  Bytes large_segment_size = 20 * kMiB;
};

// Memory of the card.
struct CardMemory {
  Bytes capacity = kUnlimited;  // bytes that the allocator can use
  Bytes total = 0;              // bytes of the whole card; 0: unknown
};

}  // namespace pgmo::baseline
