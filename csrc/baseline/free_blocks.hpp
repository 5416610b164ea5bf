// Free blocks sorted by size, then address: like PyTorch's `std::set`, at a fraction of its cost.
//
//     bins   [512][1024] ... [16.0 KiB ..)[16.5 KiB ..) ...    32 bins for each power of two
//             tree  tree       tree         -                   each tree by size and address
//
// A bitmap marks the bins with blocks. Each bin is a treap, so operations take logarithmic time
// even if all blocks have one size. Blocks are not owned; their `left`, `right` and `priority`
// belong to the tree.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "baseline/block.hpp"

namespace pgmo::baseline {

class FreeBlocks {
 public:
  void insert(Block* block) noexcept {
    const std::size_t bin = bin_of(block->size);
    Block** link = &roots_[bin];
    while (*link != nullptr && (*link)->priority >= block->priority) {
      link = before(*block, **link) ? &(*link)->left : &(*link)->right;
    }
    Block* rest = *link;
    *link = block;
    Block** left = &block->left;
    Block** right = &block->right;
    while (rest != nullptr) {
      if (before(*rest, *block)) {
        *left = rest;
        left = &rest->right;
        rest = rest->right;
      } else {
        *right = rest;
        right = &rest->left;
        rest = rest->left;
      }
    }
    *left = *right = nullptr;
    filled_[bin / kWord] |= std::uint64_t{1} << (bin % kWord);
  }

  void remove(Block* block) noexcept {
    const std::size_t bin = bin_of(block->size);
    Block** link = &roots_[bin];
    while (*link != block) {
      link = before(*block, **link) ? &(*link)->left : &(*link)->right;
    }
    Block* left = block->left;
    Block* right = block->right;
    while (left != nullptr && right != nullptr) {
      if (left->priority >= right->priority) {
        *link = left;
        link = &left->right;
        left = left->right;
      } else {
        *link = right;
        link = &right->left;
        right = right->left;
      }
    }
    *link = left != nullptr ? left : right;
    if (roots_[bin] == nullptr) filled_[bin / kWord] &= ~(std::uint64_t{1} << (bin % kWord));
  }

  // Return the smallest block of at least this size, or nullptr. Of equally large blocks, return
  // the block at the lowest address.
  Block* at_least(Bytes size) const noexcept { return from(size, 0); }

  // Return the next block in the order of size and address, or nullptr.
  Block* after(const Block& block) const noexcept { return from(block.size, block.address + 1); }

  // Return the largest block, or nullptr; of equally large blocks, that at the highest address.
  Block* largest() const noexcept {
    for (std::size_t word = filled_.size(); word-- > 0;) {
      if (filled_[word] == 0) continue;
      const std::size_t bit = kWord - 1 - static_cast<std::size_t>(std::countl_zero(filled_[word]));
      Block* block = roots_[word * kWord + bit];
      while (block->right != nullptr) block = block->right;
      return block;
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kWord = 64;
  static constexpr unsigned kSteps = 5;     // each power of two is divided into 2^5 bins
  static constexpr unsigned kOctaves = 40;  // powers of two of units: more than any card has
  static constexpr Bytes kUnit = 512;       // bytes; sizes are multiples of it
  static constexpr std::size_t kBins = (kOctaves - kSteps + 1) << kSteps;

  static bool before(const Block& one, const Block& other) noexcept {
    return one.size != other.size ? one.size < other.size : one.address < other.address;
  }

  static std::size_t bin_of(Bytes size) noexcept {
    const auto units = static_cast<std::uint64_t>(size / kUnit);
    if (units < (1u << kSteps)) return units;
    const unsigned octave = static_cast<unsigned>(std::bit_width(units)) - 1 - kSteps;
    const std::size_t bin = (static_cast<std::size_t>(octave) << kSteps) + (units >> octave);
    return std::min(bin, kBins - 1);  // a file may contain sizes larger than any card
  }

  // Return the first block that is not before this size and address in the order, or nullptr.
  Block* from(Bytes size, Bytes address) const noexcept {
    const std::size_t bin = bin_of(size);
    Block* best = nullptr;
    for (Block* block = roots_[bin]; block != nullptr;) {
      const bool too_early = block->size != size ? block->size < size : block->address < address;
      if (too_early) {
        block = block->right;
      } else {
        best = block;
        block = block->left;
      }
    }
    return best != nullptr ? best : first_of(next_filled(bin + 1));
  }

  std::size_t next_filled(std::size_t bin) const noexcept {
    std::size_t word = bin / kWord;
    if (word >= filled_.size()) return kBins;
    std::uint64_t bits = filled_[word] & (~std::uint64_t{0} << (bin % kWord));
    while (bits == 0) {
      if (++word == filled_.size()) return kBins;
      bits = filled_[word];
    }
    return word * kWord + static_cast<std::size_t>(std::countr_zero(bits));
  }

  Block* first_of(std::size_t bin) const noexcept {
    if (bin >= kBins) return nullptr;
    Block* block = roots_[bin];
    while (block->left != nullptr) block = block->left;
    return block;
  }

  std::array<std::uint64_t, (kBins + kWord - 1) / kWord> filled_{};
  std::array<Block*, kBins> roots_{};
};

}  // namespace pgmo::baseline
