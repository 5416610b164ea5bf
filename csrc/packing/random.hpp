// Random numbers for searches: fast, and the same on every machine for the same seed.

#pragma once

#include <cstdint>

namespace pgmo::packing {

// xorshift64* of Vigna 2016, "An experimental exploration of Marsaglia's xorshift generators".
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix(seed)) {}

  std::uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1DULL;
  }

  // Return a number in [0, n).
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>(((next() >> 32) * n) >> 32);
  }

  // Return a number in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  // Mix the seed's bits, so that similar seeds give unrelated sequences. The state is never 0.
  static std::uint64_t mix(std::uint64_t seed) {
    seed += 0x9E3779B97F4A7C15ULL;
    seed = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9ULL;
    seed = (seed ^ (seed >> 27)) * 0x94D049BB133111EBULL;
    return (seed ^ (seed >> 31)) | 1;
  }

  std::uint64_t state_;
};

}  // namespace pgmo::packing
