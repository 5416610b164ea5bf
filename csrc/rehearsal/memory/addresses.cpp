// Device addresses: ranges of the process's address space, which use no memory until written.

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>

#include "../state.hpp"

namespace fakecuda {
namespace {

// Device addresses lie in [kLowest, kEnd): above the addresses that sanitizers use, and below the
// addresses where Linux maps programs. Addresses from kFirst on are used first. Addresses below
// kFirst, and freed addresses, are used once all other addresses have been used.
constexpr uintptr_t kLowest = uintptr_t{1} << 40, kFirst = uintptr_t{1} << 45,
                    kEnd = 5 * (uintptr_t{1} << 44);

size_t whole_pages(size_t bytes) {
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

// Return all ranges in use: end by begin.
std::map<uintptr_t, uintptr_t>& taken() {
  static auto* all = new std::map<uintptr_t, uintptr_t>;
  return *all;
}

// Return the end of the last range in use that overlaps [begin, end); 0 if there is none.
uintptr_t end_of_taken(uintptr_t begin, uintptr_t end) {
  const auto next = taken().lower_bound(end);
  if (next == taken().begin()) return 0;
  const auto last = std::prev(next);
  return last->second > begin ? last->second : 0;
}

uintptr_t align(uintptr_t address, size_t alignment) {
  return (address + alignment - 1) / alignment * alignment;
}

// Map the first free range of this length in [begin, end); null if there is none.
void* map_between(uintptr_t begin, uintptr_t end, size_t length, int protection, size_t alignment) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  uintptr_t at = align(begin, alignment);
  while (at < end && length <= end - at) {
    if (const uintptr_t after = end_of_taken(at, at + length)) {
      at = align(after, alignment);
      continue;
    }
    void* pages = mmap(reinterpret_cast<void*>(at), length, protection, kFlags, -1, 0);
    if (pages != MAP_FAILED) {
      taken()[at] = at + length;
      return pages;
    }
    if (errno != EEXIST) return nullptr;
    at = align(at + length, alignment);  // the range overlaps another mapping of the process
  }
  return nullptr;
}

}  // namespace

// Addresses ascend, so that they have the same order in every run: of two cached blocks of equal
// size, torch uses the one at the lower address.
void* map_pages(size_t bytes, int protection, size_t alignment) {
  static uintptr_t next = kFirst;
  const Guard guard(state_mutex());
  const size_t length = whole_pages(bytes);
  if (length < bytes) return nullptr;
  alignment = std::max(alignment, kGranularity);
  void* pages = map_between(next, kEnd, length, protection, alignment);
  if (!pages) pages = map_between(kLowest, kEnd, length, protection, alignment);
  if (pages) next = reinterpret_cast<uintptr_t>(pages) + length;
  return pages;
}

void unmap_pages(void* address, size_t bytes) {
  const Guard guard(state_mutex());
  munmap(address, whole_pages(bytes));
  taken().erase(reinterpret_cast<uintptr_t>(address));
}

}  // namespace fakecuda
