#include "alignment/pairing.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace pgmo::alignment {
namespace {

using Triple = std::array<std::int64_t, 3>;

struct Placed {
  Triple tokens;
  std::size_t place;  // of the first
};

// Three requests in a row that an iteration makes once, in the order of their tokens.
std::vector<Placed> unique_triples(std::span<const std::int64_t> token) {
  std::vector<Placed> all;
  for (std::size_t at = 0; at + 3 <= token.size(); ++at) {
    all.push_back({{token[at], token[at + 1], token[at + 2]}, at});
  }
  std::sort(all.begin(), all.end(),
            [](const Placed& one, const Placed& other) { return one.tokens < other.tokens; });
  std::vector<Placed> unique;
  for (std::size_t at = 0; at < all.size(); ++at) {
    const bool as_before = at > 0 && all[at - 1].tokens == all[at].tokens;
    const bool as_after = at + 1 < all.size() && all[at + 1].tokens == all[at].tokens;
    if (!as_before && !as_after) unique.push_back(all[at]);
  }
  return unique;
}

std::size_t distance(std::size_t one, std::size_t other) noexcept {
  return one > other ? one - other : other - one;
}

}  // namespace

Pairing::Pairing(Requests a, Requests b, std::size_t tokens, const Heuristics& heuristics)
    : a_(a), b_(b), heuristics_(heuristics), latest_(tokens, kUnpaired) {}

void Pairing::pair(std::span<std::int64_t> row) {
  walk_by({}, row);
  const std::vector<Place> anchors = this->anchors();
  if (anchors.empty()) return;
  std::vector<std::int64_t> by_anchors(row.size());
  walk_by(anchors, by_anchors);
  if (alike(by_anchors) > alike(row)) std::copy(by_anchors.begin(), by_anchors.end(), row.begin());
}

// From the beginning to the end of both, by way of anchors.
void Pairing::walk_by(std::span<const Place> anchors, std::span<std::int64_t> row) {
  std::fill(row.begin(), row.end(), kUnpaired);
  std::fill(latest_.begin(), latest_.end(), kUnpaired);
  cursor_ = {0, 0};
  for (const Place anchor : anchors) {
    if (anchor.a < cursor_.a || anchor.b < cursor_.b) continue;
    walk_to(anchor, row);
    cursor_ = anchor;
  }
  walk_to({a_.count(), b_.count()}, row);
  fill_gaps(row);
}

// How many requests are paired with one of the same token.
std::size_t Pairing::alike(std::span<const std::int64_t> row) const noexcept {
  std::size_t count = 0;
  for (std::size_t at = 0; at < row.size(); ++at) {
    if (row[at] == kUnpaired) continue;
    count += a_.token[static_cast<std::size_t>(row[at])] == b_.token[at];
  }
  return count;
}

// In the order of `a`.
std::vector<Pairing::Place> Pairing::anchors() const {
  const std::size_t farthest = distance(a_.count(), b_.count()) + heuristics_.look_ahead;
  const std::vector<Placed> in_a = unique_triples(a_.token);
  const std::vector<Placed> in_b = unique_triples(b_.token);
  std::vector<Place> found;
  auto other = in_b.begin();
  for (const Placed& one : in_a) {
    while (other != in_b.end() && other->tokens < one.tokens) ++other;
    if (other == in_b.end() || other->tokens != one.tokens) continue;
    if (distance(one.place, other->place) <= farthest) found.push_back({one.place, other->place});
  }
  std::sort(found.begin(), found.end(),
            [](const Place& one, const Place& next) { return one.a < next.a; });
  return found;
}

// Pairs requests until one cursor is at its end.
void Pairing::walk_to(Place end, std::span<std::int64_t> row) {
  while (cursor_.a < end.a && cursor_.b < end.b) {
    if (!agrees(cursor_)) cursor_ = skip_to_agreement(end);
    if (may_pair(cursor_)) {
      row[cursor_.b] = static_cast<std::int64_t>(cursor_.a);
      latest_[static_cast<std::size_t>(a_.token[cursor_.a])] = b_.token[cursor_.b];
    }
    ++cursor_.a;
    ++cursor_.b;
  }
}

// Where the cursors go on; where they are if no place is better.
Pairing::Place Pairing::skip_to_agreement(Place end) const noexcept {
  Place best = cursor_;
  std::ptrdiff_t most = 4 * agreements_from(cursor_, end);
  for (std::size_t skipped = 1; skipped <= heuristics_.look_ahead; ++skipped) {
    for (const Place place :
         {Place{cursor_.a + skipped, cursor_.b}, Place{cursor_.a, cursor_.b + skipped}}) {
      if (place.a >= end.a || place.b >= end.b || !agrees(place)) continue;
      const std::ptrdiff_t worth = 4 * agreements_from(place, end) - cost_of_skip(place);
      if (worth <= most) continue;
      most = worth;
      best = place;
    }
  }
  return best;
}

// In quarters of a request that agrees.
std::ptrdiff_t Pairing::cost_of_skip(Place place) const noexcept {
  const auto in_a = static_cast<std::ptrdiff_t>(place.a - cursor_.a);
  const auto in_b = static_cast<std::ptrdiff_t>(place.b - cursor_.b);
  const auto more_in_a = static_cast<std::ptrdiff_t>(a_.count() - cursor_.a) -
                         static_cast<std::ptrdiff_t>(b_.count() - cursor_.b);
  const bool has_no_counterpart = in_a > 0 ? more_in_a >= in_a : -more_in_a >= in_b;
  return (in_a + in_b) * (has_no_counterpart ? 1 : 2);
}

// How many of the next requests agree with those at the same distance.
std::ptrdiff_t Pairing::agreements_from(Place place, Place end) const noexcept {
  const std::size_t ahead =
      std::min<std::size_t>({heuristics_.look_ahead, end.a - place.a, end.b - place.b});
  std::ptrdiff_t agreements = 0;
  for (std::size_t at = 0; at < ahead; ++at) {
    agreements += agrees({place.a + at, place.b + at});
  }
  return agreements;
}

bool Pairing::agrees(Place place) const noexcept {
  const std::int64_t token = a_.token[place.a];
  const std::int64_t other = b_.token[place.b];
  return token == other || latest_[static_cast<std::size_t>(token)] == other;
}

bool Pairing::may_pair(Place place) const noexcept {
  if (a_.stream[place.a] != b_.stream[place.b]) return false;
  const auto [smaller, larger] = std::minmax(a_.size[place.a], b_.size[place.b]);
  const Bytes ratio = heuristics_.length_ratio;
  return larger / (ratio * ratio) <= smaller;  // as replay has it
}

void Pairing::fill_gaps(std::span<std::int64_t> row) const noexcept {
  Place begin{0, 0};
  for (std::size_t at = 0; at <= row.size(); ++at) {
    if (at < row.size() && row[at] == kUnpaired) continue;
    const std::size_t end = at < row.size() ? static_cast<std::size_t>(row[at]) : a_.count();
    if (end - begin.a == at - begin.b) {
      for (; begin.b < at; ++begin.a, ++begin.b) {
        if (a_.stream[begin.a] != b_.stream[begin.b]) continue;
        row[begin.b] = static_cast<std::int64_t>(begin.a);
      }
    }
    begin = {end + 1, at + 1};
  }
}

}  // namespace pgmo::alignment
