// Pairs the requests of two iterations by dynamic programming, in the gaps between pairs that are
// known already.
//
// The algorithm is that of Needleman and Wunsch 1970, and unpaired requests cost nothing. A pair of
// requests has one of these scores:
//
//     60   equal sizes
//     50   other sizes whose ratio is common between the two iterations
//     30   other sizes
//     29   one size is at least 16 times the other, such as a batch and a scalar for a log
//      0   different streams
//
// Small gaps are solved as a whole. In a large gap, a window slides along both sequences, and
// decides the pairs of its first half.
//
//     a  ─────[██████████▒▒▒▒▒▒▒▒▒▒░░░░░]──────▶     █ decided   ▒ inspected   ░ slack
//     b  ──────[█████████▒▒▒▒▒▒▒▒▒]────────────▶

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace pgmo::alignment {

// One iteration's requests; the columns have equal length.
struct Requests {
  std::span<const std::int64_t> token;  // equal for the same size and stream, in both iterations
  std::span<const double> size;         // bytes
  std::span<const std::uint64_t> stream;
};

// A part of both iterations that has no pairs yet: a[low, high) and b[left, right).
struct Gap {
  std::size_t low, high, left, right;
};

// The tokens of a window's requests, numbered in order of appearance.
class Kinds {
 public:
  // Throws std::bad_alloc.
  void number(std::span<const std::int64_t> token);

  std::size_t count() const noexcept { return known_.size(); }
  const std::uint32_t* of_request() const noexcept { return of_request_.data(); }

 private:
  std::vector<std::uint32_t> of_request_;
  std::unordered_map<std::int64_t, std::uint32_t> known_;
};

class Windows {
 public:
  Windows(Requests a, Requests b, std::span<const double> ratios) noexcept
      : a_(a), b_(b), ratios_(ratios) {}

  // Write to row[j] the request of `a` paired with request j of `b`, for pairs in the gap; leave
  // other entries unchanged. Throws std::bad_alloc.
  void fill(Gap gap, std::span<std::int64_t> row);

 private:
  static constexpr double kFar = 16;  // ratio of sizes from which a pair scores less
  static constexpr std::size_t kMostCells = 1u << 17;  // maximum cells of a gap solved as a whole
  static constexpr std::size_t kWindow = 256;          // requests of `b` in a window
  static constexpr std::size_t kSlack = 128;           // requests of `a` in a window beyond kWindow

  // 16 bits suffice: a path has at most 362 pairs (the square root of kMostCells) of score 60.
  using Score = std::int16_t;

  // Throws std::bad_alloc.
  void score(const Gap& window);
  void score_kinds(const Gap& window);
  Score score_of(std::size_t i, std::size_t j) const noexcept;
  std::size_t trace(const Gap& window, std::size_t decided,
                    std::span<std::int64_t> row) const noexcept;

  Requests a_;
  Requests b_;
  std::span<const double> ratios_;
  Kinds kinds_a_;  // kinds of the window's requests
  Kinds kinds_b_;
  std::vector<Score> scores_;       // scores of the window, (kinds of `a`, columns)
  std::vector<Score> kind_scores_;  // scores of one kind of `a`, by kind of `b`; -1: not computed
  std::vector<Score> best_;         // best score of each path so far, (rows + 1, columns + 1)
};

}  // namespace pgmo::alignment
