// Sweeps of one window, again and again: rightward and leftward, with another order of choices each
// time, for numbers of nodes that grow in the manner of Luby.
//
// A circle is swept as a line of several turns, from where the fewest blocks are alive, with the
// same holes in each turn. What is left open goes by the same rule each time, so a turn amid others
// often ends with the stack that it began with, and is a packing of the circle. It need not: a line
// may have a packing where the circle has none. Then another try begins.

#pragma once

#include <memory>

#include "packing/sweep/sweep.hpp"
#include "packing/sweep/unrolled.hpp"

namespace pgmo::packing {

class SweepSearch {
 public:
  // Whether sweeps can do anything for the window, and are ready for it soon.
  static bool suits(const Window& window);

  // Makes every `stride`th try from `first` on. Refers to the window.
  SweepSearch(const Window& window, std::uint64_t seed, std::uint64_t first, std::uint64_t stride);

  // Goes on for about so many nodes. kInfeasible: no packing is as low as the window's load.
  Sweep::State run(std::uint64_t nodes, const std::function<bool()>& stopped);

  std::uint64_t nodes() const { return nodes_; }

  // In units, by the window's numbers. Only when found.
  const Offsets& offsets() const { return offsets_; }

 private:
  void start();

  const Window& window_;
  const Rank turn_;  // sections of a circle; 0: a line
  Unrolled line_, mirrored_;
  const std::uint64_t seed_, first_, stride_;
  std::uint64_t tries_ = 0, budget_ = 0, nodes_ = 0;
  std::unique_ptr<Sweep> right_, left_;
  bool rightward_ = true;
  Offsets offsets_;
};

}  // namespace pgmo::packing
