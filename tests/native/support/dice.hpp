// Random numbers that are the same on every platform, unlike those of the standard library's
// distributions.

#pragma once

#include <random>

struct Dice {
  explicit Dice(unsigned seed) : twister(seed) {}
  // Return a number from `low` to `high`, both included.
  int roll(int low, int high) {
    return low + static_cast<int>(twister() % static_cast<unsigned>(high - low + 1));
  }
  std::mt19937 twister;
};
