// Pairs the requests of two iterations by anchors: sizes that occur equally often in both.
//
//     a   7 [a b] 4 [c d] 4 [e]        7 and 4 occur as often here as there; [gaps] of equal length
//     b   7 [A B] 4 [C]   4 [E]        are paired by their order, and the others searched again
//
// As patience diff does, but a size need not be unique: the k-th occurrence is paired with the
// k-th, of these pairs a longest chain that increases in both is kept (patience sorting), and each
// gap that is left is treated in the same way, since sizes that are not balanced over the whole
// often are inside a gap.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "alignment/windows.hpp"

namespace pgmo::alignment {

class Anchors {
 public:
  // Tokens number the distinct sizes and streams of both from 0 to `tokens`. An anchor's places may
  // differ by `off` requests. Throws std::bad_alloc.
  Anchors(std::span<const std::int64_t> a, std::span<const std::int64_t> b, std::size_t tokens,
          std::size_t off);

  // Writes to row[j] the request of `a` that request j of `b` is paired with; the others are left
  // as they are. Returns the gaps in which no anchor was found. Throws std::bad_alloc.
  std::vector<Gap> pair(std::span<std::int64_t> row);

 private:
  static constexpr int kPasses = 12;

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Token {
    std::uint32_t in_a = 0;  // how often it occurs in the gap at hand
    std::uint32_t in_b = 0;
    std::size_t next = kNone;  // of its places in `b`; none where it is not balanced
  };

  struct Pair {
    std::size_t a, b;
  };

  Token& of(std::int64_t token) noexcept { return tokens_[static_cast<std::size_t>(token)]; }
  void split(const Gap& gap, std::span<std::int64_t> row, std::vector<Gap>& opened,
             std::vector<Gap>& barren);
  void balanced(const Gap& gap);
  void keep_chain();

  std::span<const std::int64_t> a_;
  std::span<const std::int64_t> b_;
  std::size_t off_;
  std::vector<Token> tokens_;
  std::vector<std::size_t> places_;  // in `b`, of balanced tokens, side by side for each
  std::vector<Pair> pairs_;          // of the gap at hand, in the order of `a`
  std::vector<std::size_t> tops_;    // of the piles, as ordinals in `pairs_`
  std::vector<std::size_t> before_;
};

}  // namespace pgmo::alignment
