// Pairs the requests of two iterations: a cursor in each, a bounded look-ahead, and anchors.
//
//     a   7 [8] 4 [6]  9 [8] 5 4 9 5 ...       [ ] sizes that depend on the shape
//     b   7 [2] 4  3  [1] 9 [2] 5 4 9 5 ...
//         |  |  |         |  |  |              3 has no counterpart; 5 4 9 is an anchor
//
// It is the rule of replay (engine/replay/matching.cpp), which does not know what follows. Here
// both iterations are known:
//
//   1. Requests under the two cursors are a pair if they agree: they have one token, or the latest
//      pair of the first one's token was with the second one's.
//   2. Otherwise a cursor skips up to `look_ahead` requests, to the place where most of the next
//      requests agree. Each skipped request costs half an agreement, or a quarter if that
//      iteration has at least so many more requests left than the other.
//   3. Where neither does, they are a pair of two sizes. If the ratio of sizes is out of range,
//      they are paired only where both iterations have as many requests left between two pairs.
//   4. Both cursors go on at the next anchor: three requests in a row that each iteration makes
//      once. The two places of an anchor differ by at most the difference in length plus
//      `look_ahead`.
//
// What is left between two pairs is paired in order where both have as many. Sizes of one shape may
// be those of another part at another shape: of two micro-batches that have changed their lengths,
// for one. So the walk is repeated without anchors, and the pairs are kept that have more equal
// tokens.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "heuristics.hpp"

namespace pgmo::alignment {

inline constexpr std::int64_t kUnpaired = -1;

// One iteration's requests; the columns are of one length.
struct Requests {
  std::span<const std::int64_t> token;  // equal for requests that are alike, in both iterations
  std::span<const std::int64_t> size;   // bytes
  std::span<const std::uint64_t> stream;

  std::size_t count() const noexcept { return token.size(); }
};

class Pairing {
 public:
  // Tokens are numbered from 0 to before `tokens`. Throws std::bad_alloc.
  Pairing(Requests a, Requests b, std::size_t tokens, const Heuristics& heuristics);

  // Writes to row[j] the request of `a` that request j of `b` is paired with, or kUnpaired. Rows
  // increase, and pairs are of one stream. Throws std::bad_alloc.
  void pair(std::span<std::int64_t> row);

 private:
  struct Place {
    std::size_t a, b;
  };

  std::vector<Place> anchors() const;
  void walk_by(std::span<const Place> anchors, std::span<std::int64_t> row);
  void walk_to(Place end, std::span<std::int64_t> row);
  Place skip_to_agreement(Place end) const noexcept;
  std::ptrdiff_t cost_of_skip(Place place) const noexcept;
  std::ptrdiff_t agreements_from(Place place, Place end) const noexcept;
  bool agrees(Place place) const noexcept;
  bool may_pair(Place place) const noexcept;
  void fill_gaps(std::span<std::int64_t> row) const noexcept;
  std::size_t alike(std::span<const std::int64_t> row) const noexcept;

  Requests a_;
  Requests b_;
  const Heuristics& heuristics_;
  std::vector<std::int64_t> latest_;  // by token of `a`: the token of its latest pair
  Place cursor_{0, 0};
};

}  // namespace pgmo::alignment
