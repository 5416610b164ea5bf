// Pairs the requests of two iterations by anchors: sizes that occur equally often in both.
//
//     a   7 [a b] 4 [c d] 4 [e]        7 and 4 occur equally often in both; [gaps] of equal length
//     b   7 [A B] 4 [C]   4 [E]        are paired in order, and other gaps are searched again
//
// This is patience diff, but elements need not be unique: the k-th occurrence of a size in one
// iteration is paired with its k-th occurrence in the other. Of these pairs, a longest chain that
// increases in both iterations is kept (patience sorting). Each remaining gap is searched again,
// because other sizes may occur equally often inside it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "alignment/windows.hpp"

namespace pgmo::alignment {

class Anchors {
 public:
  // Requests with the same size and stream have the same token, from 0 to `tokens` - 1. The two
  // positions of an anchor differ by at most `off` requests. The spans must outlive this object.
  // Throws std::bad_alloc.
  Anchors(std::span<const std::int64_t> a, std::span<const std::int64_t> b, std::size_t tokens,
          std::size_t off);

  // Write to row[j] the request of `a` paired with request j of `b`; leave unpaired entries
  // unchanged. Return the gaps that remain unpaired. Throws std::bad_alloc.
  std::vector<Gap> pair(std::span<std::int64_t> row);

 private:
  static constexpr int kPasses = 12;  // maximum depth of gaps within gaps

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Token {
    std::uint32_t in_a = 0;  // occurrences in the current gap
    std::uint32_t in_b = 0;
    std::size_t next = kNone;  // index into `places_`; kNone if `in_a` and `in_b` differ
  };

  struct Pair {
    std::size_t a, b;
  };

  Token& of(std::int64_t token) noexcept { return tokens_[static_cast<std::size_t>(token)]; }
  void split(const Gap& gap, std::span<std::int64_t> row, std::vector<Gap>& opened,
             std::vector<Gap>& without_anchors);
  void balanced(const Gap& gap);
  void keep_chain();

  std::span<const std::int64_t> a_;
  std::span<const std::int64_t> b_;
  std::size_t off_;
  std::vector<Token> tokens_;
  std::vector<std::size_t> places_;  // positions of equally frequent tokens in `b`, token by token
  std::vector<Pair> pairs_;          // pairs of the current gap, sorted by `a`
  std::vector<std::size_t> tops_;    // tops of the piles, as indices into `pairs_`
  std::vector<std::size_t> before_;  // for each pair, the pair before it in its chain
};

}  // namespace pgmo::alignment
