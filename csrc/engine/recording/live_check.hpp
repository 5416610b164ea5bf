// With PGMO_CHECK=1: an interval map of all live slots and tracked framework blocks.
//
// It shares no code with the logic that it checks. If a new block overlaps a live block, the check
// prints both blocks and ends the process. Otherwise the program would corrupt memory. Calls
// require the engine's lock.

#pragma once

#include <cstdint>
#include <map>

namespace pgmo {

class LiveCheck {
 public:
  // `origin`: "slot" or "framework", for the message.
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
