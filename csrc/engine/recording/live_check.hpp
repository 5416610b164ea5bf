// PGMO_CHECK=1: an interval map of every live block that the engine knows, by absolute address.
//
// It shares nothing with the logic that it watches, and ends the process with a message when a
// block is handed out over a living one: the memory is about to be corrupted, so there is nothing
// to save.

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
