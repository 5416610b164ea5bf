// All orders of leaves in which certain sets of them are together.
//
//        P            A P node's children come in any order, those of a Q node in the given one or
//      / | \          its reverse. gather({b, d}) leaves only orders in which b and d are together:
//     a  d  Q         the root's children become a and a Q node of d, b and c.
//          / \        Booth and Lueker 1976, "Testing for the consecutive ones property". Trees are
//         b   c       small here, so each step looks at a whole one. Nodes are never changed: a
//                     search goes back by forgetting new ones.
//
// A node knows the choices that it follows from; so does a failure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "packing/sweep/reasons.hpp"

namespace pgmo::packing {

class PqTree {
 public:
  using Node = std::int32_t;
  using Leaf = std::int32_t;
  static constexpr Node kNone = -1;

  // Leaves are numbers below this.
  explicit PqTree(std::size_t leaves) : wanted_(leaves), place_(leaves) {}

  // Leaves in any order; kNone without any.
  Node any_order(std::span<const Leaf> leaves);

  // The orders of `root` in which these leaves, which are in it, are together for the reasons
  // given; kNone if there is none.
  Node gather(Node root, std::span<const Leaf> leaves, const Reasons& why);
  // Why the last gathering failed, apart from its own reasons.
  const Reasons& why_not() const { return why_not_; }

  // The orders of `root`, in all of which these leaves are together, with those of `by` in their
  // place, in any order and for the reasons given. kNone if nothing is left.
  Node replace(Node root, std::span<const Leaf> leaves, std::span<const Leaf> by,
               const Reasons& why);

  // These leaves, which are in `root`, in the largest sets that are together in all its orders.
  // Adds the reasons for that.
  std::vector<std::vector<Leaf>> together(Node root, std::span<const Leaf> leaves, Reasons& why);

  // One of the orders.
  std::vector<Leaf> order(Node root) const;
  // The order of `root` that differs from `other` only in that `there` are in the place of
  // `instead`, at least one each, and together. There must be such an order. What it leaves open
  // goes by the least of `ranks`, which are by leaf, if there are any.
  std::vector<Leaf> order_like(Node root, std::span<const Leaf> other,
                               std::span<const Leaf> instead, std::span<const Leaf> there,
                               std::span<const Leaf> ranks);

  struct Mark {
    std::size_t nodes, children;
  };
  Mark mark() const { return {nodes_.size(), children_.size()}; }
  // Nodes made since then are no more.
  void forget(const Mark& mark);

 private:
  enum class Kind : std::uint8_t { kLeaf, kAny, kFixed };
  struct Entry {
    Kind kind;
    Leaf leaf;
    std::uint32_t first, count;  // in children_
    std::uint32_t leaves;
  };
  using Nodes = std::vector<Node>;

  Node any_order(std::span<const Leaf> leaves, const Reasons& why, const Reasons& why_there);
  Node add(Kind kind, std::span<const Node> children, const Reasons& why);
  Nodes children_of(Node node) const;
  void look_for(Node root, std::span<const Leaf> leaves);
  std::uint32_t count(Node node);
  bool full(Node node) const { return found_[node] == nodes_[node].leaves; }
  bool partial(Node node) const { return found_[node] > 0 && !full(node); }
  Node gathered(Node node, std::uint32_t wanted, Reasons why);
  Node gathered_fixed(Node node, const Nodes& children, Reasons why);
  bool line_up(Node node, Nodes& line, Reasons& why, bool wanted_first);
  Node fail(Node node);
  void why_there(Node node, Reasons& why) const;
  void blame(Node node, Reasons& why) const;
  Node replaced(Node node, Node by);
  void collect(Node node, std::vector<std::vector<Leaf>>& sets, Reasons& why) const;
  void write(Node node, std::vector<Leaf>& order) const;
  struct Place {
    std::int32_t at, rank;  // in the other order; by `ranks`, to tell those apart that have one
  };
  Place write_like(Node node, std::vector<Leaf>& order, std::int32_t there,
                   std::span<const Leaf> ranks) const;

  std::vector<Entry> nodes_;
  std::vector<Reasons> why_;  // by node: it is there, or what is below it is together
  std::vector<Node> children_;
  std::vector<std::uint8_t> wanted_;  // by leaf
  std::vector<std::int32_t> place_;   // by leaf
  std::vector<std::uint32_t> found_;  // by node: wanted leaves below it
  Reasons why_not_;
};

}  // namespace pgmo::packing
