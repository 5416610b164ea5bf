#include "alignment/windows.hpp"

#include <algorithm>
#include <cmath>

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
    // A window decides its first half only: the second half does not see enough of what follows.
    const std::size_t columns = window.right - window.left;
    const std::size_t decided = whole ? columns : std::max<std::size_t>(1, columns / 2);
    const std::size_t following = trace(window, decided, row);
    if (whole) return;
    gap = {following, gap.high, window.left + decided, gap.right};
  }
}

std::int32_t Windows::score_of(std::size_t i, std::size_t j) const noexcept {
  if (a_.stream[i] != b_.stream[j]) return 0;
  if (a_.token[i] == b_.token[j]) return 60;
  const double ratio = b_.size[j] / a_.size[i];
  for (const double common : ratios_) {
    if (std::abs(ratio - common) < 1e-6) return 50;
  }
  return ratio < kFar && ratio > 1 / kFar ? 30 : 29;
}

// A window has far fewer sizes than requests, so scores are kept by sizes.
void Windows::score(const Gap& window) {
  const std::size_t rows = window.high - window.low;
  const std::size_t columns = window.right - window.left;
  kinds_a_.number(a_.token.subspan(window.low, rows));
  kinds_b_.number(b_.token.subspan(window.left, columns));
  scores_.assign(kinds_a_.count() * kinds_b_.count(), -1);
  best_.assign((rows + 1) * (columns + 1), 0);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::int32_t* above = &best_[i * (columns + 1)];
    std::int32_t* here = &best_[(i + 1) * (columns + 1)];
    std::int32_t* scores = &scores_[kinds_a_.of_request()[i] * kinds_b_.count()];
    const std::uint32_t* kinds = kinds_b_.of_request();
    std::int32_t before = 0;
    for (std::size_t j = 0; j < columns; ++j) {
      std::int32_t& score = scores[kinds[j]];
      if (score < 0) [[unlikely]]
        score = score_of(window.low + i, window.left + j);
      before = std::max({above[j + 1], before, above[j] + score});
      here[j + 1] = before;
    }
  }
}

// Writes the pairs of the first columns. Returns where in `a` those of the next one are sought.
std::size_t Windows::trace(const Gap& window, std::size_t decided,
                           std::span<std::int64_t> row) const noexcept {
  std::size_t i = window.high - window.low;
  std::size_t j = window.right - window.left;
  const std::size_t stride = j + 1;
  std::size_t following = window.high;
  while (i != 0 && j != 0) {
    const std::int32_t best = best_[i * stride + j];
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
