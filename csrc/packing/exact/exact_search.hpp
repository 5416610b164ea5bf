// Depth-first search for a packing of a window within a given capacity.
//
//   offset    capacity
//     ^ ........................    Any packing can be pushed down until every block rests on the
//     |                             ground or on another block. Each node takes the lowest block
//     |  +----+     ?               (c) and has two branches: c lies on the placed blocks below it,
//     |  | b  |  +--+---+           or on a block that is not placed yet. In the second branch, c
//     |--+--+-+  |  c   |           floats: its lowest offset rises to the lowest possible top of
//     | a   |    +------+           such a block.
//     +-----+----------------> t
//
// Branches are cut by:
//  - load: in each section, the blocks at or above any offset must fit between that offset and the
//    capacity;
//  - dominance: a floating block leaves a hole; if no remaining block reaches into the hole, the
//    floating block could as well lie in the hole;
//  - symmetry: equal blocks are placed in one order, and so are touching blocks of equal lifetime;
//  - decomposition: if the remaining blocks split into parts that do not overlap in time, each part
//    is searched separately, and a part without a solution ends the branch.
//
// Based on MiniMalloc (Moffitt, ASPLOS 2023), which has sections, canonical solutions and
// dominance. MiniMalloc does not raise the lower bounds of floating blocks.

#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "packing/exact/search_order.hpp"
#include "packing/exact/window.hpp"

namespace pgmo::packing {

class ExactSearch {
 public:
  enum class State { kOpen, kFound, kInfeasible };

  // `order` contains all blocks of the window, which must outlive the search. `capacity`: in units.
  ExactSearch(const Window& window, Bytes capacity, const SearchOrder& order);

  // Continue for at most `nodes` nodes, or until `stopped` returns true, and return the state.
  State run(std::uint64_t nodes, const std::function<bool()>& stopped);

  std::uint64_t nodes() const { return nodes_; }
  Bytes capacity() const { return capacity_; }

  // Return the offsets in units, by the window's block numbers. Valid only in state kFound.
  Offsets offsets() const;

 private:
  using Index = std::int32_t;  // a position in the order

  // A block that is not placed yet. The block floats if low > top.
  struct Open {
    Index block;
    Offset low;  // lower bound of its offset
    Offset top;  // top of the placed blocks below it
    Index turn;  // of two blocks with equal `low`, the one with the smaller turn is tried first
  };

  // One level of the search: the open blocks of a part, sorted by `low`. A level either chooses a
  // block to place, or holds the parts into which it splits.
  struct Level {
    std::vector<Open> open;
    Index chosen = -1;         // index into `open`, or -1
    std::vector<Index> parts;  // ends of the parts in `open`; empty: not split
    std::size_t part = 0;      // index of the part being searched
  };

  Level& push();
  void solved();
  void failed();
  void enter(Level& level);
  bool refuse(Level& level);
  bool settle(Level& level);
  static bool earlier(const Open& a, const Open& b);
  static void sort(Level& level);
  bool fits(const Level& level);
  template <typename Load>
  bool fits(const Level& level, std::vector<Load>& load) const;
  bool interfere(Index a, Index b) const;
  bool same_life(Index a, Index b) const;
  bool split(Level& level);
  void order_by_load(Level& level, std::size_t begin, std::size_t end);

  const Window& window_;
  const Bytes capacity_;
  const SearchOrder order_;
  std::size_t n_;
  std::vector<Bytes> size_;  // `size_` to `placed_` are indexed by position in the order
  std::vector<Rank> begin_, end_;
  std::vector<Index> twin_;  // the previous block of equal size and lifetime, or -1
  std::vector<Offset> placed_;

  std::vector<Level> levels_;
  std::size_t depth_ = 0;  // number of levels in use
  State state_ = State::kOpen;
  std::uint64_t nodes_ = 0;
  std::size_t unasked_ = 0;

  std::vector<std::pair<std::size_t, Offset>> raised_;  // scratch
  std::vector<std::int32_t> load_;                      // scratch, by section
  std::vector<Bytes> wide_load_;                        // replaces `load_` at large capacities
  std::vector<Rank> crossing_, part_of_;                // scratch, by section
  std::vector<Bytes> remaining_;                        // scratch, by section
  std::vector<std::pair<Bytes, std::size_t>> keys_;     // scratch, by open block
};

}  // namespace pgmo::packing
