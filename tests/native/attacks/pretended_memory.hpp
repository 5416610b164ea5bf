// Addresses without memory, which are reused soon after they were given back.
//
// Arenas and framework blocks come from the same addresses, as in a framework. So outdated entries
// of an address in the engine do harm here, too.

#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace pgmo::test {

class PretendedMemory {
 public:
  std::uintptr_t take(std::uint64_t bytes) {
    auto& free = free_[size_class(bytes)];
    if (!free.empty()) {
      const std::uintptr_t address = free.back();
      free.pop_back();
      return address;
    }
    const std::uintptr_t address = next_;
    next_ += std::uint64_t{1} << size_class(bytes);
    return address;
  }
  void give(std::uintptr_t address, std::uint64_t bytes) {
    free_[size_class(bytes)].push_back(address);
  }

 private:
  static std::size_t size_class(std::uint64_t bytes) {
    return static_cast<std::size_t>(std::bit_width(bytes | 511));  // at least 512 bytes
  }

  std::array<std::vector<std::uintptr_t>, 64> free_;
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
};

}  // namespace pgmo::test
