#include "packing/search/order_search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pgmo::packing {
namespace {

constexpr double kPerturbed =
    0.3;  // share of the keys that a perturbation without a restart changes
// Median amplitude of a perturbation; it varies from a quarter to four times this.
constexpr double kAmplitude = 0.5;
constexpr float kLearningStep = 0.2F;  // gain of the key of a block above the target
constexpr double kNewPower = 0.3;      // probability of a new power of the size
constexpr double kMostPower = 1.2;
constexpr double kRestart = 0.15;      // probability of a start without the learned gains
constexpr double kSwaps = 0.4;         // probability of swapping instead of perturbing
constexpr std::uint32_t kPairs = 4;    // maximum number of swapped pairs
constexpr double kTemperature = 1e-3;  // as a share of the arena
constexpr double kHalf = 4294967296.0 / 2;

}  // namespace

OrderSearch::OrderSearch(const Ring& ring, std::uint64_t seed, std::function<bool()> stopped)
    : ring_(ring), skyline_(ring, std::move(stopped)), random_(seed) {
  const std::size_t n = ring.size.size();
  log_lifetime_.resize(n);
  log_size_.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    log_lifetime_[i] = static_cast<float>(std::log(static_cast<double>(ring.lifetime[i])));
    log_size_[i] = static_cast<float>(std::log(static_cast<double>(ring.size[i])));
  }
  learned_.assign(n, 0);
  tried_.resize(n);
  packed_.resize(n);
  order_.resize(n);
}

// Pack by an order that is similar to the current one. Return false if stopped.
bool OrderSearch::attempt() {
  tried_power_ =
      random_.unit() < kNewPower ? static_cast<float>(kMostPower * random_.unit()) : power_;
  if (random_.unit() < kSwaps && !outstanding_.empty()) {
    swap_pairs();
  } else {
    perturb();
  }
  sort_by_key(tried_power_);
  const std::uint64_t steps = skyline_.steps();
  if (!skyline_.fill(order_)) return false;
  work_ += 3 * order_.size() + 4 * (skyline_.steps() - steps);
  const Offsets& offsets = skyline_.offsets();
  const Bytes arena = arena_of(ring_, offsets);
  if (accepts(arena)) {
    current_ = arena;
    power_ = tried_power_;
    std::swap(learned_, tried_);
  }
  if (arena < arena_) {
    arena_ = arena;
    best_ = offsets;
  }
  const Bytes aim = std::min(arena_, target_) - 1;
  outstanding_.clear();
  for (BlockId i = 0; i < ring_.blocks(); ++i) {
    if (offsets[i] + ring_.size[i] <= aim) continue;
    learned_[i] += kLearningStep;
    outstanding_.push_back(i);
  }
  return true;
}

// Return whether to accept an arena. An arena that is no larger than the current arena is always
// accepted, a larger arena sometimes.
bool OrderSearch::accepts(Bytes arena) {
  if (arena <= current_) return true;
  const double loss = static_cast<double>(arena - current_);
  return random_.unit() < std::exp(-loss / (kTemperature * static_cast<double>(arena_)));
}

void OrderSearch::perturb() {
  const double amplitude = kAmplitude * std::pow(16, random_.unit() - 0.5);
  const auto scale = static_cast<float>(amplitude / kHalf);
  const bool restart = random_.unit() < kRestart;
  const double part = restart ? 1 : kPerturbed;
  const auto threshold = static_cast<std::uint32_t>(part * (2 * kHalf - 1));
  for (std::size_t i = 0; i < learned_.size(); ++i) {
    const std::uint64_t draw = random_.next();
    const float shift =
        scale * (static_cast<float>(static_cast<std::uint32_t>(draw)) - static_cast<float>(kHalf));
    tried_[i] = (restart ? 0.0F : learned_[i]) +
                (static_cast<std::uint32_t>(draw >> 32) < threshold ? shift : 0.0F);
  }
}

// Swap the keys of a few blocks above the target with the keys of other blocks.
void OrderSearch::swap_pairs() {
  tried_ = learned_;
  const auto fixed = [&](BlockId block) {
    return log_lifetime_[block] + tried_power_ * log_size_[block];
  };
  const auto n = static_cast<std::uint32_t>(learned_.size());
  for (std::uint32_t pairs = 1 + random_.below(kPairs); pairs > 0; --pairs) {
    const BlockId a = outstanding_[random_.below(static_cast<std::uint32_t>(outstanding_.size()))];
    const auto b = static_cast<BlockId>(random_.below(n));
    const float key = fixed(a) + tried_[a];
    tried_[a] = fixed(b) + tried_[b] - fixed(a);
    tried_[b] = key - fixed(b);
  }
}

// Sort the blocks by falling key, then by number. One integer contains both key and number.
void OrderSearch::sort_by_key(float power) {
  for (std::size_t i = 0; i < packed_.size(); ++i) {
    const double key = log_lifetime_[i] + power * log_size_[i] + tried_[i];
    const double rank = std::clamp(kHalf - key * 0x1p18, 0.0, 2 * kHalf - 1);
    packed_[i] = static_cast<std::uint64_t>(rank) << 32 | i;
  }
  std::sort(packed_.begin(), packed_.end());
  for (std::size_t i = 0; i < packed_.size(); ++i) {
    order_[i] = static_cast<BlockId>(static_cast<std::uint32_t>(packed_[i]));
  }
}

}  // namespace pgmo::packing
