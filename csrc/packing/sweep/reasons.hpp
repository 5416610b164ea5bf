// The choices that something follows from: a small set of their numbers.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace pgmo::packing {

// Of numbers below the capacity.
class Reasons {
 public:
  static constexpr std::size_t kCapacity = 256;

  Reasons() = default;
  explicit Reasons(std::size_t choice) { word(choice) = bit(choice); }

  bool has(std::size_t choice) const { return (words_[choice / 64] & bit(choice)) != 0; }
  void drop(std::size_t choice) { word(choice) &= ~bit(choice); }
  Reasons& operator|=(const Reasons& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }

 private:
  static std::uint64_t bit(std::size_t choice) { return std::uint64_t{1} << choice % 64; }
  std::uint64_t& word(std::size_t choice) { return words_[choice / 64]; }

  std::array<std::uint64_t, kCapacity / 64> words_{};
};

}  // namespace pgmo::packing
