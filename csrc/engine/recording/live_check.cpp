#include "engine/recording/live_check.hpp"

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <new>

namespace pgmo {

void LiveCheck::allocated(std::uintptr_t address, std::uint64_t bytes,
                          const char* origin) noexcept {
  const auto after = live_.lower_bound(address);
  auto clash = live_.end();
  if (after != live_.end() && after->first < address + bytes) clash = after;
  if (after != live_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second.bytes > address) clash = before;
  }
  if (clash != live_.end()) {
    std::fprintf(stderr,
                 "pgmo: PGMO_CHECK failed: %llu bytes at %#llx (%s) would overlap the live block "
                 "of %llu bytes at %#llx (%s).\nThis is a bug in pgmo; please report it.\n",
                 static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(address),
                 origin, static_cast<unsigned long long>(clash->second.bytes),
                 static_cast<unsigned long long>(clash->first), clash->second.origin);
    std::abort();
  }
  try {
    live_.emplace(address, Block{bytes, origin});
  } catch (const std::bad_alloc&) {
    // The block stays unchecked: the check must not end a program that would survive without it.
  }
}

void LiveCheck::freed(std::uintptr_t address) noexcept {
  live_.erase(address);
}

}  // namespace pgmo
