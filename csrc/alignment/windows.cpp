#include "alignment/windows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace pgmo::alignment {

void Kinds::number(std::span<const std::int64_t> token) {
  known_.clear();
  of_request_.clear();
  for (const std::int64_t one : token) {
    const auto next = static_cast<std::uint32_t>(known_.size());
    of_request_.push_back(known_.emplace(one, next).first->second);
  }
}

void Windows::fill(Gap gap, std::span<std::int64_t> row) {
  while (gap.low < gap.high && gap.left < gap.right) {
    const bool whole = (gap.high - gap.low) * (gap.right - gap.left) <= kMostCells;
    Gap window = gap;
    if (!whole) {
      window.high = std::min(gap.high, gap.low + kWindow + kSlack);
      window.right = std::min(gap.right, gap.left + kWindow);
    }
    score(window);
    // Decide only the first half of a window: the second half depends on requests beyond it.
    const std::size_t columns = window.right - window.left;
    const std::size_t decided = whole ? columns : std::max<std::size_t>(1, columns / 2);
    const std::size_t following = trace(window, decided, row);
    if (whole) return;
    gap = {following, gap.high, window.left + decided, gap.right};
  }
}

Windows::Score Windows::score_of(std::size_t i, std::size_t j) const noexcept {
  if (a_.stream[i] != b_.stream[j]) return 0;
  if (a_.token[i] == b_.token[j]) return 60;
  const double ratio = b_.size[j] / a_.size[i];
  for (const double common : ratios_) {
    if (std::abs(ratio - common) < 1e-6) return 50;
  }
  return ratio < kFar && ratio > 1 / kFar ? 30 : 29;
}

namespace {

using Score = std::int16_t;
constexpr std::size_t kLanes = 8;
using Lanes = Score __attribute__((vector_size(kLanes * sizeof(Score))));

Lanes larger(Lanes one, Lanes other) {
  return one > other ? one : other;
}

// Return lanes moved up by `by`; the first `by` lanes are zero.
template <int by>
Lanes shifted(Lanes lanes) {
  constexpr int lanes_of_none = static_cast<int>(kLanes);
  constexpr auto from = [](int lane) { return lane < by ? 0 : lanes_of_none + lane - by; };
#if defined(__clang__)
  return __builtin_shufflevector(Lanes{}, lanes, from(0), from(1), from(2), from(3), from(4),
                                 from(5), from(6), from(7));
#else
  const auto lane = [&](int at) { return static_cast<Score>(from(at)); };
  return __builtin_shuffle(
      Lanes{}, lanes,
      Lanes{lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7)});
#endif
}

// Replace each score by the largest score up to its position. Eight scores take four vector maxima;
// a serial loop takes two cycles per score.
void keep_best(Score* scores, std::size_t count) {
  Score best = 0;
  std::size_t at = 0;
  for (; at + kLanes <= count; at += kLanes) {
    Lanes lanes;
    std::memcpy(&lanes, scores + at, sizeof(lanes));
    lanes = larger(lanes, shifted<1>(lanes));  // no score is negative
    lanes = larger(lanes, shifted<2>(lanes));
    lanes = larger(lanes, shifted<4>(lanes));
    lanes = larger(lanes, Lanes{} + best);
    std::memcpy(scores + at, &lanes, sizeof(lanes));
    best = lanes[kLanes - 1];
  }
  for (; at < count; ++at) scores[at] = best = std::max(best, scores[at]);
}

}  // namespace

// Fill `best_`. A window has far fewer kinds than requests, so the scores of each kind of `a` are
// computed once. The maximum with the cell to the left is taken last, so that all other steps can
// be vectorized.
void Windows::score(const Gap& window) {
  const std::size_t rows = window.high - window.low;
  const std::size_t columns = window.right - window.left;
  kinds_a_.number(a_.token.subspan(window.low, rows));
  kinds_b_.number(b_.token.subspan(window.left, columns));
  score_kinds(window);
  best_.assign((rows + 1) * (columns + 1), 0);
  for (std::size_t i = 0; i < rows; ++i) {
    const Score* above = &best_[i * (columns + 1)];
    Score* here = &best_[(i + 1) * (columns + 1)];
    const Score* scores = &scores_[kinds_a_.of_request()[i] * columns];
    for (std::size_t j = 0; j < columns; ++j) {
      const auto paired = static_cast<Score>(above[j] + scores[j]);
      here[j + 1] = std::max(above[j + 1], paired);
    }
    keep_best(here + 1, columns);
  }
}

// For each kind of `a`, in order of first request, compute the score with each request of `b`.
void Windows::score_kinds(const Gap& window) {
  const std::size_t columns = window.right - window.left;
  scores_.clear();
  kind_scores_.resize(kinds_b_.count());
  for (std::size_t i = 0; i < window.high - window.low; ++i) {
    if (kinds_a_.of_request()[i] * columns < scores_.size()) continue;
    std::fill(kind_scores_.begin(), kind_scores_.end(), Score{-1});
    for (std::size_t j = 0; j < columns; ++j) {
      Score& score = kind_scores_[kinds_b_.of_request()[j]];
      if (score < 0) score = score_of(window.low + i, window.left + j);
      scores_.push_back(score);
    }
  }
}

// Trace the best path back and write the pairs of the first `decided` columns. Return the position
// in `a` at which the next window begins.
std::size_t Windows::trace(const Gap& window, std::size_t decided,
                           std::span<std::int64_t> row) const noexcept {
  std::size_t i = window.high - window.low;
  std::size_t j = window.right - window.left;
  const std::size_t stride = j + 1;
  std::size_t following = window.high;
  while (i != 0 && j != 0) {
    const Score best = best_[i * stride + j];
    if (best == best_[(i - 1) * stride + j]) {
      --i;
    } else if (best == best_[i * stride + j - 1]) {
      --j;
    } else {
      --i;
      --j;
      if (j < decided) {
        row[window.left + j] = static_cast<std::int64_t>(window.low + i);
      } else {
        following = window.low + i;
      }
    }
  }
  return following;
}

}  // namespace pgmo::alignment
