// Depth-first search for a packing of a window within a given capacity.
//
//   offset    capacity
//     ^ ........................    Any packing can be pushed down until every block rests on the
//     |                             ground or on another block. So a block whose support is known
//     |  +----+     ?               and that nothing else can get below (c) lies either right
//     |  | b  |  +--+---+           there or on a block that is still to be placed: the two
//     |--+--+-+  |  c   |           branches of every node. In the second one c floats: its lowest
//     | a   |    +------+           offset rises to that of the lowest top it may come to rest on.
//     +-----+----------------> t
//
// What cuts branches off:
//  - in each section, the blocks that lie above some offset must fit between it and the capacity;
//  - a floating block left a hole; if nothing that is still to come reaches into the hole, the
//    block could as well lie in it (dominance);
//  - equal blocks are placed in one order, and so are blocks of one lifetime that touch (symmetry);
//  - when the blocks that are left fall apart into parts that never meet, each part is searched by
//    itself, and one that has no solution ends them all (decomposition).
//
// After MiniMalloc (Moffitt, ASPLOS 2023), which has sections, canonical solutions and dominance,
// but no lower offsets for blocks that were refused a place.

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

  // `order` has all of the window's blocks; the capacity is in units.
  ExactSearch(const Window& window, Bytes capacity, const SearchOrder& order);

  // Goes on for at most so many nodes, or until `stopped`, which is asked now and then.
  State run(std::uint64_t nodes, const std::function<bool()>& stopped);

  std::uint64_t nodes() const { return nodes_; }
  Bytes capacity() const { return capacity_; }

  // In units, by the window's numbers. Only when found.
  Offsets offsets() const;

 private:
  using Index = std::int32_t;  // a place in the order

  // What is known of a block that is not placed yet. It floats if low > top.
  struct Open {
    Index block;
    Offset low;  // it lies there or higher
    Offset top;  // the height of the placed blocks below it
    Index turn;  // of two that could lie equally low, the smaller one is tried first
  };

  // One level of the search: the blocks of a part that are open, by rising `low`. A level either
  // chooses a block to place or, when the part falls apart, holds the parts one after another.
  struct Level {
    std::vector<Open> open;
    Index chosen = -1;         // index into `open`, or -1
    std::vector<Index> parts;  // ends of the parts in `open`; empty: not fallen apart
    std::size_t part = 0;      // the one under search
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
  bool meets(Index a, Index b) const;
  bool same_life(Index a, Index b) const;
  bool split(Level& level);
  void order_by_load(Level& level, std::size_t begin, std::size_t end);

  const Window& window_;
  const Bytes capacity_;
  const SearchOrder order_;
  std::size_t n_;
  std::vector<Bytes> size_;  // by place in the order, as all that follows
  std::vector<Rank> begin_, end_;
  std::vector<Index> twin_;  // the equal block next before it, or -1
  std::vector<Offset> placed_;

  std::vector<Level> levels_;
  std::size_t depth_ = 0;  // levels in use
  State state_ = State::kOpen;
  std::uint64_t nodes_ = 0;
  std::size_t unasked_ = 0;

  std::vector<std::pair<std::size_t, Offset>> raised_;  // scratch
  std::vector<std::int32_t> load_;                      // scratch, by section
  std::vector<Bytes> wide_load_;                        // the same when sizes are beyond 32 bits
  std::vector<Rank> crossing_, part_of_;                // scratch, by section
  std::vector<Bytes> remaining_;                        // scratch, by section
  std::vector<std::pair<Bytes, std::size_t>> keys_;     // scratch, by open block
};

}  // namespace pgmo::packing
