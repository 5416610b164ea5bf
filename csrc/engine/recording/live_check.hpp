// With PGMO_CHECK=1: an interval map of every live block that the engine tracks, by address.
//
// It shares no code with the logic that it checks. If a new block overlaps a live one, it ends the
// process with a message, because memory is about to be corrupted.

#pragma once

#include <cstdint>
#include <map>

namespace pgmo {

class LiveCheck {
 public:
  void allocated(std::uintptr_t address, std::uint64_t bytes, const char* origin) noexcept;
  void freed(std::uintptr_t address) noexcept;

 private:
  struct Block {
    std::uint64_t bytes;
    const char* origin;
  };
  std::map<std::uintptr_t, Block> live_;
};

}  // namespace pgmo
