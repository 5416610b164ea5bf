// The ways in which what ends between two sections can be several holes that what begins fills.

#pragma once

#include <functional>
#include <vector>

#include "packing/sweep/turnover.hpp"

namespace pgmo::packing {

struct Partitions {
  std::vector<std::vector<Hole>> ways;  // the single hole first
  std::vector<double> costs;            // by way, unless all ways are there
  double chance = 0;                    // how many of two holes there would be if sizes were random
  bool complete = true;                 // whether these are all
  std::size_t work = 0;                 // looks at sets that it took to find them
};

// `out` and `in` are sets that lie together, so each is in one hole. A hole's two sides are equally
// large, and of what leaves it `possible` says that it can lie together. Where these are too many,
// those with `small` holes if these are asked for, else the first ones.
Partitions partitions(const Window& window, const std::vector<Blocks>& out,
                      const std::vector<Blocks>& in,
                      const std::function<bool(const Blocks&)>& possible, bool small);

}  // namespace pgmo::packing
