// Pairs the requests of two iterations where no size is an anchor: a dynamic program.
//
// Needleman and Wunsch 1970 with free gaps. A pair scores 60 for an equal size, 50 for a ratio that
// is common between the two iterations, 30 for any other size on the same stream, nothing on
// another. So two requests are left unpaired only where that gains something. Of choices that are
// equal otherwise one counts less where a size is sixteen times the other, as a batch is of a
// number that is logged beside it. Small gaps are done as a whole; in large ones a window slides
// along both sequences and decides its first half.
//
//     a  ─────[██████████▒▒▒▒▒▒▒▒▒▒░░░░░]──────▶     █ decided   ▒ looked at   ░ slack
//     b  ──────[█████████▒▒▒▒▒▒▒▒▒]────────────▶

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace pgmo::alignment {

// One iteration's requests; the columns are of one length.
struct Requests {
  std::span<const std::int64_t> token;  // equal for equal sizes on one stream, in both iterations
  std::span<const double> size;         // bytes
  std::span<const std::uint64_t> stream;
};

// Of both iterations, where no pair is known: a[low, high) and b[left, right).
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

  // Writes to row[j] the request of `a` that request j of `b` is paired with, for pairs in the gap;
  // the others are left as they are. Throws std::bad_alloc.
  void fill(Gap gap, std::span<std::int64_t> row);

 private:
  static constexpr double kFar = 16;
  static constexpr std::size_t kMostCells = 1u << 17;  // of a gap that is done as a whole
  static constexpr std::size_t kWindow = 256;
  static constexpr std::size_t kSlack = 128;

  // No path pairs more requests than the square root of the most cells has, or a window columns.
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
  Kinds kinds_a_;  // of the window's requests
  Kinds kinds_b_;
  std::vector<Score> scores_;       // (kinds of `a`, columns) of the window
  std::vector<Score> kind_scores_;  // of one kind of `a`, by that of `b`; -1: not known yet
  std::vector<Score> best_;         // (rows + 1, columns + 1) of the window
};

}  // namespace pgmo::alignment
