// Random numbers that are the same everywhere, which distributions of the library are not.

#pragma once

#include <random>

struct Dice {
  explicit Dice(unsigned seed) : twister(seed) {}
  // From low to high, both included.
  int roll(int low, int high) {
    return low + static_cast<int>(twister() % static_cast<unsigned>(high - low + 1));
  }
  std::mt19937 twister;
};
