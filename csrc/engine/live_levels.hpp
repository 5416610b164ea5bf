// Live bytes at the ends of iterations, in constant memory. They show whether live memory grows.
//
//     iteration   1   2   3   4   5   6   ...           width 1: a span for each iteration
//     spans       |---|---|---|---|---|---|
//                 |-------|-------|-------|             full: neighbours are joined, width 2
//
// A span covers `width` iterations. It keeps the minimum of the live bytes at the ends of these
// iterations. It also keeps the peak of live bytes up to the end of the span. The minimum over many
// iterations rises only if blocks stay alive: the outputs of one long batch do not raise it.
//
// Not thread-safe: the engine's lock guards it.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "checks.hpp"
#include "types.hpp"

namespace pgmo {

class LiveLevels {
 public:
  struct Span {
    Bytes least = 0;  // minimum of the live bytes at the ends of its iterations
    Bytes peak = 0;   // peak of the live bytes, up to the end of the span
  };

  // Maximum number of spans. When all are full, neighbours are joined, and half remain.
  static constexpr std::size_t kMost = 32;

  // Note the end of an iteration. `live`: the live bytes now; `peak`: their peak so far.
  void note(Bytes live, Bytes peak) noexcept {
    if (iterations_in_last_ == width_) {
      if (count_ == kMost) join();
      iterations_in_last_ = 0;
    }
    if (iterations_in_last_ == 0) spans_[count_++] = {live, peak};
    Span& last = spans_[count_ - 1];
    last = {std::min(last.least, live), std::max(last.peak, peak)};
    ++iterations_in_last_;
  }

  // Number of iterations in each complete span.
  std::uint64_t width() const noexcept { return width_; }

  // Number of complete spans.
  std::size_t count() const noexcept {
    return count_ - static_cast<std::size_t>(count_ > 0 && iterations_in_last_ < width_);
  }

  // Return a complete span; 0 is the oldest. Requires at < count().
  const Span& at(std::size_t at) const noexcept {
    PGMO_ASSERT(at < count());
    return spans_[at];
  }

 private:
  void join() noexcept {
    for (std::size_t at = 0; at < kMost / 2; ++at) {
      const Span &first = spans_[2 * at], &second = spans_[2 * at + 1];
      spans_[at] = {std::min(first.least, second.least), std::max(first.peak, second.peak)};
    }
    count_ = kMost / 2;
    width_ *= 2;
  }

  std::array<Span, kMost> spans_{};
  std::size_t count_ = 0;
  std::uint64_t width_ = 1;
  std::uint64_t iterations_in_last_ = 0;
};

}  // namespace pgmo
