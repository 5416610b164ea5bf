// Minimum cut between a source and a sink.

#pragma once

#include <cstdint>
#include <vector>

namespace pgmo::recompute {

constexpr std::int64_t kUncuttable = INT64_MAX / 4;  // capacity of an edge that must not be cut

struct Edge {
  std::int32_t tail, head;
  std::int64_t capacity;  // at least 0
};

struct Cut {
  std::int64_t capacity;
  std::vector<std::uint8_t> source_side;  // for each node, whether it is on the source's side
};

// Return the minimum cut with the fewest nodes on the source's side. Uses blocking flows (Dinic
// 1970). Throws std::invalid_argument if a node is out of range, a capacity is negative, or the
// source is the sink.
Cut min_cut(std::int32_t nodes, const std::vector<Edge>& edges, std::int32_t source,
            std::int32_t sink);

}  // namespace pgmo::recompute
