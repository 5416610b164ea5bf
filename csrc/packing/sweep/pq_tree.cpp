#include "packing/sweep/pq_tree.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace pgmo::packing {

PqTree::Node PqTree::any_order(std::span<const Leaf> leaves, const Reasons& why,
                               const Reasons& why_there) {
  Nodes children;
  for (const Leaf leaf : leaves) {
    nodes_.push_back({Kind::kLeaf, leaf, 0, 0, 1});
    why_.push_back(why_there);
    children.push_back(static_cast<Node>(nodes_.size() - 1));
  }
  return add(Kind::kAny, children, why);
}

PqTree::Node PqTree::any_order(std::span<const Leaf> leaves) {
  return any_order(leaves, {}, {});
}

// A node of two children has no order to fix, one of a single child is that child.
PqTree::Node PqTree::add(Kind kind, std::span<const Node> children, const Reasons& why) {
  if (children.empty()) return kNone;
  if (children.size() == 1) return children[0];
  Entry entry{children.size() == 2 ? Kind::kAny : kind, -1,
              static_cast<std::uint32_t>(children_.size()),
              static_cast<std::uint32_t>(children.size()), 0};
  for (const Node node : children) entry.leaves += nodes_[node].leaves;
  children_.insert(children_.end(), children.begin(), children.end());
  nodes_.push_back(entry);
  why_.push_back(why);
  return static_cast<Node>(nodes_.size() - 1);
}

// A copy: adding nodes moves what is stored.
PqTree::Nodes PqTree::children_of(Node node) const {
  const auto first = children_.begin() + nodes_[node].first;
  return {first, first + nodes_[node].count};
}

void PqTree::forget(const Mark& mark) {
  nodes_.resize(mark.nodes);
  why_.resize(mark.nodes);
  children_.resize(mark.children);
}

void PqTree::look_for(Node root, std::span<const Leaf> leaves) {
  for (const Leaf leaf : leaves) wanted_[leaf] = true;
  found_.resize(nodes_.size());
  count(root);
  for (const Leaf leaf : leaves) wanted_[leaf] = false;
}

std::uint32_t PqTree::count(Node node) {
  const Entry& entry = nodes_[node];
  std::uint32_t sum = 0;
  if (entry.kind == Kind::kLeaf) {
    sum = wanted_[entry.leaf];
  } else {
    for (std::uint32_t i = 0; i < entry.count; ++i) sum += count(children_[entry.first + i]);
  }
  return found_[node] = sum;
}

PqTree::Node PqTree::gather(Node root, std::span<const Leaf> leaves, const Reasons& why) {
  if (leaves.size() <= 1) return root;
  look_for(root, leaves);
  Reasons all = why;
  why_there(root, all);
  return gathered(root, static_cast<std::uint32_t>(leaves.size()), all);
}

// Adds the reasons why wanted leaves are where they are.
void PqTree::why_there(Node node, Reasons& why) const {
  if (found_[node] == 0) return;
  const Entry& entry = nodes_[node];
  if (entry.kind == Kind::kLeaf) why |= why_[node];
  for (std::uint32_t i = 0; i < entry.count; ++i) why_there(children_[entry.first + i], why);
}

// All wanted leaves are below the node.
PqTree::Node PqTree::gathered(Node node, std::uint32_t wanted, Reasons why) {
  if (full(node)) return node;
  const Reasons own = why_[node];
  const Kind kind = nodes_[node].kind;
  Nodes children = children_of(node);
  for (Node& child : children) {
    if (found_[child] < wanted) continue;
    const Node below = gathered(child, wanted, why);
    if (below == kNone || below == child) return below == kNone ? kNone : node;
    child = below;
    return add(kind, children, own);
  }
  if (kind == Kind::kFixed) return gathered_fixed(node, children, why);
  Nodes none, all, partials;
  for (const Node child : children) {
    (found_[child] == 0 ? none : full(child) ? all : partials).push_back(child);
  }
  if (partials.size() > 2) return fail(node);
  Reasons lined = why;
  lined |= own;
  Nodes line;
  if (!partials.empty() && !line_up(partials[0], line, lined, false)) return fail(node);
  if (!all.empty()) line.push_back(add(Kind::kAny, all, why));
  if (partials.size() == 2 && !line_up(partials[1], line, lined, true)) return fail(node);
  none.push_back(add(Kind::kFixed, line, lined));
  return add(Kind::kAny, none, own);
}

// Wanted leaves must be in a run of children of which only the outer two have others.
PqTree::Node PqTree::gathered_fixed(Node node, const Nodes& children, Reasons why) {
  std::size_t first = 0, last = children.size() - 1;
  while (found_[children[first]] == 0) ++first;
  while (found_[children[last]] == 0) --last;
  why |= why_[node];
  Nodes line;
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (!partial(children[i])) {
      if (first < i && i < last && !full(children[i])) return fail(node);
      line.push_back(children[i]);
    } else if ((i != first && i != last) || !line_up(children[i], line, why, i == last)) {
      return fail(node);
    }
  }
  return add(Kind::kFixed, line, why);
}

// Appends what is below a partial node with its wanted leaves last, or first. False if these cannot
// be apart from the others.
bool PqTree::line_up(Node node, Nodes& line, Reasons& why, bool wanted_first) {
  const Reasons own = why_[node];
  const Nodes children = children_of(node);
  Nodes none, rest, all;  // rising from no wanted leaves to nothing else
  if (nodes_[node].kind == Kind::kAny) {
    for (const Node child : children) {
      (found_[child] == 0 ? none : full(child) ? all : rest).push_back(child);
    }
    none = {add(Kind::kAny, none, own)};
    all = {add(Kind::kAny, all, own)};
    std::erase(none, kNone);
    std::erase(all, kNone);
  } else {
    const bool falls = full(children.front()) || found_[children.back()] == 0;
    for (std::size_t i = 0; i < children.size(); ++i) {
      const Node child = children[falls ? children.size() - 1 - i : i];
      Nodes& place = found_[child] == 0 ? none : full(child) ? all : rest;
      const bool late = !all.empty() || (found_[child] == 0 && !rest.empty());
      if (late && !full(child)) return false;
      place.push_back(child);
    }
  }
  if (rest.size() > 1) return false;
  why |= own;
  if (wanted_first) {
    line.insert(line.end(), all.rbegin(), all.rend());
  } else {
    line.insert(line.end(), none.begin(), none.end());
  }
  if (!rest.empty() && !line_up(rest[0], line, why, wanted_first)) return false;
  if (wanted_first) {
    line.insert(line.end(), none.rbegin(), none.rend());
  } else {
    line.insert(line.end(), all.begin(), all.end());
  }
  return true;
}

PqTree::Node PqTree::fail(Node node) {
  why_not_ = {};
  blame(node, why_not_);
  why_there(node, why_not_);
  return kNone;
}

// Adds the reasons of all nodes from here to the wanted leaves, but not of what is below full ones.
void PqTree::blame(Node node, Reasons& why) const {
  const Entry& entry = nodes_[node];
  why |= why_[node];
  if (full(node)) return;
  for (std::uint32_t i = 0; i < entry.count; ++i) {
    const Node child = children_[entry.first + i];
    if (found_[child] > 0) blame(child, why);
  }
}

PqTree::Node PqTree::replace(Node root, std::span<const Leaf> leaves, std::span<const Leaf> by,
                             const Reasons& why) {
  look_for(root, leaves);
  Reasons there = why;
  why_there(root, there);
  return replaced(root, any_order(by, why, there));
}

PqTree::Node PqTree::replaced(Node node, Node by) {
  if (full(node)) return by;
  Nodes children;
  bool done = false;
  for (const Node child : children_of(node)) {
    if (found_[child] == 0) {
      children.push_back(child);
      continue;
    }
    // Only where the leaves are those of several children of one node are there more than one.
    const Node below = done ? kNone : replaced(child, by);
    if (below != kNone) children.push_back(below);
    done = true;
  }
  const Reasons own = why_[node];
  return add(nodes_[node].kind, children, own);
}

std::vector<std::vector<PqTree::Leaf>> PqTree::together(Node root, std::span<const Leaf> leaves,
                                                        Reasons& why) {
  look_for(root, leaves);
  std::vector<std::vector<Leaf>> sets;
  collect(root, sets, why);
  return sets;
}

void PqTree::collect(Node node, std::vector<std::vector<Leaf>>& sets, Reasons& why) const {
  if (found_[node] == 0) return;
  const Entry& entry = nodes_[node];
  if (full(node)) {
    write(node, sets.emplace_back());
    if (entry.leaves > 1) {
      why |= why_[node];
      why_there(node, why);
    }
    return;
  }
  bool running = false;  // a set goes on with the next child
  for (std::uint32_t i = 0; i < entry.count; ++i) {
    const Node child = children_[entry.first + i];
    if (running && full(child)) {
      write(child, sets.back());
      why |= why_[node];
      why_there(node, why);
    } else {
      collect(child, sets, why);
      running = entry.kind == Kind::kFixed && full(child);
    }
  }
}

std::vector<PqTree::Leaf> PqTree::order(Node root) const {
  std::vector<Leaf> order;
  if (root != kNone) write(root, order);
  return order;
}

void PqTree::write(Node node, std::vector<Leaf>& order) const {
  const Entry& entry = nodes_[node];
  if (entry.kind == Kind::kLeaf) order.push_back(entry.leaf);
  for (std::uint32_t i = 0; i < entry.count; ++i) write(children_[entry.first + i], order);
}

std::vector<PqTree::Leaf> PqTree::order_like(Node root, std::span<const Leaf> other,
                                             std::span<const Leaf> instead,
                                             std::span<const Leaf> there,
                                             std::span<const Leaf> ranks) {
  for (std::size_t i = 0; i < other.size(); ++i) place_[other[i]] = static_cast<std::int32_t>(i);
  const std::int32_t at = place_[instead[0]];
  for (const Leaf leaf : there) place_[leaf] = at;
  std::vector<Leaf> order;
  write_like(root, order, at, ranks);
  return order;
}

// Appends the leaves in their order; returns the place of one, if possible not of those `there`,
// and the least rank.
PqTree::Place PqTree::write_like(Node node, std::vector<Leaf>& order, std::int32_t there,
                                 std::span<const Leaf> ranks) const {
  const Entry& entry = nodes_[node];
  if (entry.kind == Kind::kLeaf) {
    order.push_back(entry.leaf);
    return {place_[entry.leaf], ranks.empty() ? 0 : ranks[entry.leaf]};
  }
  std::vector<std::pair<Place, std::vector<Leaf>>> parts(entry.count);
  Place place{there, std::numeric_limits<Leaf>::max()};
  for (std::uint32_t i = 0; i < entry.count; ++i) {
    auto& [at, part] = parts[i];
    at = write_like(children_[entry.first + i], part, there, ranks);
    if (at.at != there) place.at = at.at;
    place.rank = std::min(place.rank, at.rank);
  }
  const auto before = [](const auto& a, const auto& b) {
    return std::pair(a.first.at, a.first.rank) < std::pair(b.first.at, b.first.rank);
  };
  if (entry.kind == Kind::kAny) {
    std::stable_sort(parts.begin(), parts.end(), before);
  } else if (before(parts.back(), parts.front())) {
    std::reverse(parts.begin(), parts.end());
  }
  for (const auto& part : parts) order.insert(order.end(), part.second.begin(), part.second.end());
  return place;
}

}  // namespace pgmo::packing
