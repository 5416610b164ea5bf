// Hash map from addresses to small values, for tables of live blocks. Address 0 marks a free cell,
// so it cannot be a key. Not thread-safe.
//
//     ┌───┬───┬───┬───┬───┬───┬───┬───┐   open addressing, linear probing, at most half full;
//     │   │ a │ b │   │ c │   │   │ d │   a removal shifts later entries back,
//     └───┴───┴───┴───┴───┴───┴───┴───┘   so there are no tombstones
//
// std::unordered_map would allocate a node per entry. These allocations would double the cost of
// recording. They would also call malloc, which may be the allocator that is being recorded.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "checks.hpp"

namespace pgmo {

template <typename Value>
class AddressMap {
 public:
  AddressMap() : cells_(kSmallest) {}

  std::size_t size() const noexcept { return size_; }

  // Add or replace an entry. If this throws std::bad_alloc, the map is unchanged.
  void insert(std::uintptr_t address, const Value& value) {
    PGMO_ASSERT(address != kFree);
    if (2 * (size_ + 1) > cells_.size()) grow();
    const std::size_t at = find_cell(address);
    if (cells_[at].address == kFree) ++size_;
    cells_[at] = {address, value};
  }

  // Return the value's address, valid until the next change of the map; nullptr: no such entry.
  Value* find(std::uintptr_t address) noexcept {
    Cell& cell = cells_[find_cell(address)];
    return cell.address == kFree ? nullptr : &cell.value;
  }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const Cell& cell : cells_) {
      if (cell.address != kFree) visit(cell.address, cell.value);
    }
  }

  // Erase the entries for which `erases(address, value)` returns true. May test entries repeatedly.
  template <typename Predicate>
  void erase_if(Predicate&& erases) noexcept {
    for (std::size_t at = 0; at < cells_.size();) {
      // The erasure shifts only later entries, or entries already visited, into this cell.
      const Cell& cell = cells_[at];
      if (cell.address != kFree && erases(cell.address, cell.value)) {
        erase(cell.address);
      } else {
        ++at;
      }
    }
  }

  // Erase the entry of this address. Return false if there is none.
  bool erase(std::uintptr_t address) noexcept {
    std::size_t hole = find_cell(address);
    if (cells_[hole].address == kFree) return false;
    const std::size_t mask = cells_.size() - 1;
    for (std::size_t at = (hole + 1) & mask; cells_[at].address != kFree; at = (at + 1) & mask) {
      // A later entry may move into the hole if its home cell does not lie (cyclically) after it.
      const std::size_t home = home_of(cells_[at].address);
      if (((at - home) & mask) >= ((at - hole) & mask)) {
        cells_[hole] = cells_[at];
        hole = at;
      }
    }
    cells_[hole].address = kFree;
    --size_;
    return true;
  }

 private:
  static constexpr std::uintptr_t kFree = 0;
  static constexpr std::size_t kSmallest = 1024;

  struct Cell {
    std::uintptr_t address = kFree;
    Value value{};
  };

  std::size_t home_of(std::uintptr_t address) const noexcept {
    // Fibonacci hashing. The lowest bits of an aligned address are always zero.
    return ((address >> 4) * 0x9E3779B97F4A7C15ull >> 20) & (cells_.size() - 1);
  }

  std::size_t find_cell(std::uintptr_t address) const noexcept {
    const std::size_t mask = cells_.size() - 1;
    std::size_t at = home_of(address);
    while (cells_[at].address != kFree && cells_[at].address != address) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Cell> old(2 * cells_.size());
    std::swap(old, cells_);
    for (const Cell& cell : old) {
      if (cell.address != kFree) cells_[find_cell(cell.address)] = cell;
    }
  }

  std::vector<Cell> cells_;
  std::size_t size_ = 0;
};

}  // namespace pgmo
