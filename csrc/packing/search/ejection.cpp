#include "packing/search/ejection.hpp"

#include <algorithm>

namespace pgmo::packing {
namespace {

constexpr double kGain = 0.3;    // growth of a weight per placement, relative to its first value
constexpr double kNoise = 0.2;   // maximum relative noise added to a weight
constexpr double kHeavy = 1e12;  // limit of weights; beyond it, doubles are too coarse for gains
constexpr std::uint64_t kMoveWork = 16;  // units of work of a move, plus one per interfering block

}  // namespace

Ejection::Ejection(const Ring& ring, const InterferenceIndex& interference, Bytes unit,
                   std::uint64_t seed)
    : ring_(ring), interference_(interference), unit_(unit), random_(seed) {
  const std::size_t n = ring.size.size();
  gain_.resize(n);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    gain_[i] = static_cast<double>(ring.size[i]) * static_cast<double>(ring.end[i] - ring.begin[i]);
    sum += gain_[i];
  }
  for (double& gain : gain_) gain *= kGain * static_cast<double>(n) / sum;
}

void Ejection::restart(const Offsets& offsets, Bytes arena) {
  best_ = offsets;
  arena_ = arena;
  capacity_ = 0;
  patience_ = 0;
}

// If no capacity is set, set the next capacity, and take out the blocks above it.
void Ejection::aim(Bytes bound) {
  if (capacity_ > 0) return;
  const double fall = stride_ * static_cast<double>(arena_ - bound);
  const Bytes units = std::max<Bytes>(1, static_cast<Bytes>(fall / static_cast<double>(unit_)));
  capacity_ = std::max(bound, arena_ - units * unit_);
  place_ = best_;
  unplaced_.clear();
  weight_.resize(gain_.size());
  for (std::size_t i = 0; i < gain_.size(); ++i) weight_[i] = gain_[i] / kGain;
  for (BlockId i = 0; i < ring_.blocks(); ++i) {
    if (place_[i] + ring_.size[i] > capacity_) take_out(i);
  }
  work_ += gain_.size() / 2;
  if (patience_ == 0) patience_ = 4'000'000;
  patience_end_ = work_ + patience_;
}

void Ejection::succeed(Bytes bound) {
  best_ = place_;
  arena_ = arena_of(ring_, best_);
  capacity_ = 0;
  if (arena_ > bound) aim(bound);
}

void Ejection::fail(Bytes bound) {
  if (static_cast<double>(arena_ - bound) * stride_ > static_cast<double>(unit_)) {
    stride_ /= 2;
  } else {
    patience_ *= 2;
  }
  capacity_ = 0;
  aim(bound);
}

void Ejection::move() {
  const std::size_t chosen = random_.below(static_cast<std::uint32_t>(unplaced_.size()));
  const BlockId block = unplaced_[chosen];
  unplaced_[chosen] = unplaced_.back();
  unplaced_.pop_back();
  const Offset place = cheapest_place(block);
  place_[block] = place;
  weight_[block] += gain_[block];
  if (weight_[block] > kHeavy) rescale_weights();
  const Offset top = place + ring_.size[block];
  interference_.each(block, [&](BlockId other) {
    if (place_[other] != kUnplanned && place_[other] < top &&
        place < place_[other] + ring_.size[other]) {
      take_out(other);
    }
  });
}

// Return the offset with the least sum of weights in the way. Ties are broken at random. Only
// offsets next to a block, the bottom or the capacity are candidates.
Offset Ejection::cheapest_place(BlockId block) {
  const Bytes size = ring_.size[block];
  const Offset highest = capacity_ - size;
  double cost = 0;
  edges_.clear();
  std::uint64_t visited = 0;
  interference_.each(block, [&](BlockId other) {
    ++visited;
    if (place_[other] == kUnplanned) return;
    const double weight = weight_[other] * (1 + kNoise * random_.unit());
    // `block` collides with `other` at the offsets between `below` and `above`.
    const Offset below = place_[other] - size;
    const Offset above = place_[other] + ring_.size[other];
    if (below < 0) {
      cost += weight;
    } else if (below < highest) {
      edges_.push_back({below, weight});
    }
    if (above <= highest) edges_.push_back({above, -weight});
  });
  work_ += kMoveWork + visited;
  std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  // Because of rounding errors, a sum that should be zero may be slightly larger.
  constexpr double kSame = 1e-9;
  double least = cost;
  Offset best = 0;
  std::uint32_t equals = 1;
  for (std::size_t i = 0; i < edges_.size();) {
    const Offset at = edges_[i].at;
    double begins = 0;
    for (; i < edges_.size() && edges_[i].at == at; ++i) {
      (edges_[i].change < 0 ? cost : begins) += edges_[i].change;
    }
    if (cost < least - kSame) {
      least = cost;
      best = at;
      equals = 1;
    } else if (cost <= least + kSame && random_.below(++equals) == 0) {
      best = at;
    }
    cost += begins;
  }
  return cost < least - kSame ? highest : best;
}

void Ejection::take_out(BlockId block) {
  place_[block] = kUnplanned;
  unplaced_.push_back(block);
}

void Ejection::rescale_weights() {
  for (std::size_t i = 0; i < weight_.size(); ++i) weight_[i] = gain_[i] + weight_[i] / kHeavy;
}

}  // namespace pgmo::packing
