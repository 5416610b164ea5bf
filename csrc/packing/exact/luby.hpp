// The lengths of tries of which it is not known how long they must be.

#pragma once

#include <bit>
#include <cstdint>

namespace pgmo::packing {

// 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ... from index 1 (Luby, Sinclair, Zuckerman 1993): the first half
// of 2^k - 1 entries is that of 2^(k - 1) - 1, twice; the last entry is 2^(k - 1).
inline std::uint64_t luby(std::uint64_t index) {
  const std::uint64_t power = std::bit_floor(index + 1);
  return index + 1 == power ? power / 2 : luby(index + 1 - power);
}

}  // namespace pgmo::packing
