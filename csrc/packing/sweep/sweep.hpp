// Search through time for a packing without a byte of waste.
//
//   section 0  1  2  3        From section to section, blocks leave holes that others fill (see
//      +-----+-----+--+       turnover.hpp). The stack is known as far as it has to be: all orders
//      |  a  |  c  |  |       in which each hole lay together, a PqTree. What fills a hole may lie
//      |-----+-----+ f|       in any order in it. Where there are several ways to part what ends
//      |   b    |  e  |       into holes, the search tries one after another.
//      +--------+-----+
//
// Where no order is left, the search goes back to the last choice that has a part in it. What is
// certain to be one hole is put together as soon as all of it is there. An order of the last
// section then gives those of the ones before, from right to left.

#pragma once

#include <functional>
#include <optional>

#include "packing/random.hpp"
#include "packing/sweep/partition.hpp"
#include "packing/sweep/pq_tree.hpp"

namespace pgmo::packing {

// Whether all sections of a window hold its load.
bool is_seamless(const Window& window);

class Sweep {
 public:
  enum class State { kOpen, kFound, kInfeasible };

  // The window is a line and seamless, and is searched for a packing of its load.
  explicit Sweep(const Window& window) : Sweep(window, 0, {}) {}

  // Seeks only packings in which holes are the same again after so many sections: `next` has a
  // block's copy that much later, or -1.
  Sweep(const Window& window, Rank period, std::vector<BlockId> next);

  // Begins anew. Without a seed, more holes come first where so many can hardly be chance. `small`
  // is that of partitions.
  void start(std::optional<std::uint64_t> seed, bool small = false);

  // Crosses at most so many turnovers, or until `stopped`, which is asked now and then.
  // kInfeasible is proved; kOpen beyond the end of `nodes`, or when nothing more is tried.
  State run(std::uint64_t nodes, const std::function<bool()>& stopped);

  // Whether nothing is left that could be tried from this start.
  bool over() const { return levels_.empty(); }
  std::uint64_t nodes() const { return nodes_; }

  // In units, by the window's numbers. Only when found.
  Offsets offsets();

 private:
  struct Level {  // before a turnover
    PqTree::Node root;
    PqTree::Mark mark;
    Partitions parts;
    std::size_t next = 0;
    Reasons why;       // of what is known of the holes
    Reasons conflict;  // choices that no way through can be found with
  };

  void share();
  void enter(PqTree::Node root);
  Partitions ways(PqTree::Node root, const Turnover& turnover, Reasons& why);
  std::vector<Hole> again(const std::vector<Hole>& holes) const;
  void arrange(Partitions& parts);
  bool cross(Level& level, const std::vector<Hole>& holes);
  bool put_together(Rank section, PqTree::Node& root);
  Reasons reasons(const Level& level, Rank section) const;
  State go_back();

  const Window& window_;
  std::vector<Turnover> turnovers_;
  std::vector<std::vector<Blocks>> early_;  // by section: holes to come, all of which is there
  std::vector<std::size_t> choice_;         // by section: number of what is not certain
  std::size_t choices_ = 0;                 // of those
  const Rank period_;                       // after which choices are the same; 0: never
  const std::vector<BlockId> next_;         // by block
  std::vector<BlockId> first_;              // by block: its first copy
  PqTree tree_;
  std::optional<Random> random_;
  std::vector<Level> levels_;
  bool small_ = false, complete_ = true;
  std::uint64_t nodes_ = 0;
  std::uint64_t unasked_ = 0;  // work since the last look at the clock
};

}  // namespace pgmo::packing
