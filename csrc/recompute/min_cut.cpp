#include "recompute/min_cut.hpp"

#include <algorithm>
#include <stdexcept>

namespace pgmo::recompute {
namespace {

class Flow {
 public:
  Flow(std::int32_t nodes, const std::vector<Edge>& edges)
      : begin_(static_cast<std::size_t>(nodes) + 1), level_(begin_.size() - 1) {
    for (const Edge& edge : edges) {
      if (edge.tail < 0 || edge.tail >= nodes || edge.head < 0 || edge.head >= nodes ||
          edge.capacity < 0) {
        throw std::invalid_argument("a node of an edge is out of range, or a capacity is negative");
      }
      ++begin_[at(edge.tail) + 1];
      ++begin_[at(edge.head) + 1];
    }
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    head_.resize(2 * edges.size());
    left_.resize(head_.size());
    twin_.resize(head_.size());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (const Edge& edge : edges) {
      const std::size_t there = next[at(edge.tail)]++, back = next[at(edge.head)]++;
      head_[there] = edge.head;
      head_[back] = edge.tail;
      left_[there] = edge.capacity;
      left_[back] = 0;
      twin_[there] = back;
      twin_[back] = there;
    }
  }

  // Compute each node's level: its distance from the source, or -1 if it is unreachable. Return
  // whether the sink is reachable.
  bool layer(std::int32_t source, std::int32_t sink) {
    std::fill(level_.begin(), level_.end(), -1);
    level_[at(source)] = 0;
    queue_.assign(1, source);
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      const std::int32_t node = queue_[i];
      for (std::size_t e = begin_[at(node)]; e < begin_[at(node) + 1]; ++e) {
        if (left_[e] > 0 && level_[at(head_[e])] < 0) {
          level_[at(head_[e])] = level_[at(node)] + 1;
          queue_.push_back(head_[e]);
        }
      }
    }
    return level_[at(sink)] >= 0;
  }

  // Push flow along paths from layer to layer until there is no such path. Return the flow pushed.
  // Not recursive, because graphs are deep.
  std::int64_t block(std::int32_t source, std::int32_t sink) {
    std::int64_t pushed = 0;
    current_.assign(begin_.begin(), begin_.end() - 1);
    path_.clear();
    for (std::int32_t node = source;;) {
      if (node == sink) {
        std::int64_t least = kUncuttable;
        for (const std::size_t e : path_) least = std::min(least, left_[e]);
        std::size_t keep = path_.size();
        for (std::size_t i = path_.size(); i-- > 0;) {
          left_[path_[i]] -= least;
          left_[twin_[path_[i]]] += least;
          if (left_[path_[i]] == 0) keep = i;
        }
        pushed += least;
        node = head_[twin_[path_[keep]]];
        path_.resize(keep);
        continue;
      }
      std::size_t& e = current_[at(node)];
      while (e < begin_[at(node) + 1] &&
             !(left_[e] > 0 && level_[at(head_[e])] == level_[at(node)] + 1)) {
        ++e;
      }
      if (e < begin_[at(node) + 1]) {
        path_.push_back(e);
        node = head_[e];
      } else if (node == source) {
        return pushed;
      } else {
        node = head_[twin_[path_.back()]];
        path_.pop_back();
        ++current_[at(node)];
      }
    }
  }

  bool reached(std::size_t node) const { return level_[node] >= 0; }

 private:
  static std::size_t at(std::int32_t node) { return static_cast<std::size_t>(node); }

  std::vector<std::size_t> begin_;
  std::vector<std::int32_t> level_;
  std::vector<std::int32_t> head_;
  std::vector<std::int64_t> left_;
  std::vector<std::size_t> twin_, current_, path_;
  std::vector<std::int32_t> queue_;
};

}  // namespace

Cut min_cut(std::int32_t nodes, const std::vector<Edge>& edges, std::int32_t source,
            std::int32_t sink) {
  if (source < 0 || source >= nodes || sink < 0 || sink >= nodes || source == sink) {
    throw std::invalid_argument("source and sink must be two nodes of the graph");
  }
  Flow flow(nodes, edges);
  Cut cut{0, {}};
  while (flow.layer(source, sink)) cut.capacity += flow.block(source, sink);
  cut.source_side.resize(static_cast<std::size_t>(nodes));
  for (std::size_t node = 0; node < cut.source_side.size(); ++node) {
    cut.source_side[node] = flow.reached(node) ? 1 : 0;
  }
  return cut;
}

}  // namespace pgmo::recompute
