// Random numbers from a seed, the same on every machine.

#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace pgmo::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // Return a number that is uniformly distributed in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(double probability) {
    return static_cast<double>(engine_() >> 11) * 0x1p-53 < probability;
  }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(from.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace pgmo::test
