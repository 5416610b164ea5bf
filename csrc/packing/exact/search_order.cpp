#include "packing/exact/search_order.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace pgmo::packing {
namespace {

// Weights of an order. A block's key is a weighted sum of the logarithms of its size, its lifetime,
// and the largest load during its life, plus noise. Blocks with larger keys come first.
struct Weights {
  double size, lifetime, load, noise;
  bool ticks;  // lifetime in ticks instead of sections
};

constexpr double kFirst = 1e6;  // weight of the load in an order with SearchOrder::by_load

constexpr std::array<Weights, 10> kGood{{
    {1.0, 1.0, kFirst, 0.0, false},  // the most loaded, then the largest area
    {0.01, 1.0, kFirst, 0.0, true},  // the most loaded, then the longest
    {1.0, 1.0, 0.0, 0.0, true},      // the largest area
    {0.01, 1.0, kFirst, 0.0, false},
    {0.01, 1.0, 0.0, 0.0, false},  // the longest
    {1.0, 1.0, kFirst, 0.0, true},
    {1.0, 1.0, 0.0, 0.0, false},
    {0.5, 1.0, 10.0, 0.0, false},
    {1.0, 0.5, 10.0, 0.0, true},
    {0.5, 1.0, 0.0, 0.0, true},
}};

// Random numbers by splitmix64, because the standard distributions differ between platforms.
class SplitMix64 {
 public:
  SplitMix64(std::uint64_t seed, std::uint64_t index)
      : state_((seed + 1) * 0x2545f4914f6cdd1du + index * 0xd1342543de82ef95u) {}

  double uniform() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

Weights draw(SplitMix64& random) {
  Weights weights{1.5 * random.uniform(), 1.5 * random.uniform(), 0, 0, random.uniform() < 0.5};
  const double kind = random.uniform();
  if (kind < 0.25) weights.load = kFirst;
  if (kind > 0.75) weights.load = 20 * random.uniform();
  if (random.uniform() < 0.7) weights.noise = random.uniform();
  return weights;
}

}  // namespace

SearchOrder search_order(const Window& window, std::uint64_t seed, std::uint64_t index) {
  const std::vector<Bytes> load = load_of(window.sections, window.size, window.begin, window.end);
  SplitMix64 random(seed, index);
  const Weights weights = index < kGood.size() ? kGood[index] : draw(random);
  const bool by_load = weights.load == kFirst;
  std::vector<double> key(window.block.size());
  for (BlockId i = 0; i < window.blocks(); ++i) {
    Bytes most = 0;
    for (Rank s = window.begin[i]; s < window.end[i]; ++s) {
      most = std::max(most, load[s % window.sections]);
    }
    key[i] = weights.size * std::log(static_cast<double>(window.size[i])) +
             weights.lifetime *
                 std::log(static_cast<double>(weights.ticks ? window.lifetime[i]
                                                            : window.end[i] - window.begin[i])) +
             weights.load * std::log(static_cast<double>(most) / static_cast<double>(window.load)) +
             weights.noise * random.uniform();
  }
  SearchOrder order{std::vector<BlockId>(window.block.size()), by_load};
  std::iota(order.blocks.begin(), order.blocks.end(), 0);
  std::sort(order.blocks.begin(), order.blocks.end(),
            [&](BlockId a, BlockId b) { return key[a] != key[b] ? key[a] > key[b] : a < b; });
  return order;
}

SearchOrder similar_order(const SearchOrder& order, std::uint64_t seed, std::uint64_t index) {
  SplitMix64 random(seed, ~index);
  const double root = random.uniform();
  const double reach = root * root * static_cast<double>(order.blocks.size()) / 3;
  std::vector<double> key(order.blocks.size());
  for (std::size_t i = 0; i < order.blocks.size(); ++i) {
    key[order.blocks[i]] = static_cast<double>(i) + reach * random.uniform();
  }
  SearchOrder result = order;
  std::stable_sort(result.blocks.begin(), result.blocks.end(),
                   [&](BlockId a, BlockId b) { return key[a] < key[b]; });
  return result;
}

}  // namespace pgmo::packing
