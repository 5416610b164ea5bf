// Sweeps of one window, again and again: rightward and leftward, with another order of choices each
// time, for numbers of nodes that grow in the manner of Luby.

#pragma once

#include <memory>

#include "packing/sweep/sweep.hpp"

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
  Offsets offsets() { return now_->offsets(); }

 private:
  void start();

  const Window& window_;
  const std::uint64_t seed_, stride_;
  std::uint64_t next_, tries_ = 0, budget_ = 0, nodes_ = 0;
  Window mirrored_;
  std::unique_ptr<Sweep> right_, left_;
  Sweep* now_ = nullptr;
};

}  // namespace pgmo::packing
