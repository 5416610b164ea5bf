// Minimum cut between a source and a sink.

#pragma once

#include <cstdint>
#include <vector>

namespace pgmo::recompute {

constexpr std::int64_t kUncuttable = INT64_MAX / 4;  // more than the sum of all other capacities

struct Edge {
  std::int32_t tail, head;
  std::int64_t capacity;  // at least 0
};

struct Cut {
  std::int64_t capacity;
  std::vector<std::uint8_t> source_side;  // whether each node is on it; the smallest such set
};

// Computed with blocking flows on layers (Dinic 1970): O(V^2 E), far less on these graphs. Throws
// std::invalid_argument if an edge is out of range.
Cut min_cut(std::int32_t nodes, const std::vector<Edge>& edges, std::int32_t source,
            std::int32_t sink);

}  // namespace pgmo::recompute
