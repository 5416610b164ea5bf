#include "packing/sweep/small_holes.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace pgmo::packing {
namespace {

constexpr std::size_t kMostSmall = 60;   // ways with one small hole
constexpr std::size_t kMostPaired = 12;  // of these, any two of which are tried together
constexpr std::size_t kMostLooks = 60'000;
constexpr std::size_t kAsking = 50;  // looks that take as long as one at a tree
constexpr double kOneHole = 0.05;    // of 0.01 to 0.3 the best on cut-up arenas

constexpr std::size_t kMost = 8;                // sets of a small hole's side, and
constexpr std::size_t kMostOf[] = {8, 20, 30};  // sets of that side, up to which all of them,
constexpr std::size_t kFew[] = {4, 3, 2};       // or so many at most, are chosen

// Numbers of sets and one, falling; then 0.
using Few = std::array<std::int16_t, kMost>;

Bytes size_of(const Window& window, const Blocks& blocks) {
  Bytes size = 0;
  for (const BlockId block : blocks) size += window.size[block];
  return size;
}

std::size_t most_of(std::size_t sets) {
  if (sets <= kMostOf[0]) return sets;
  return sets <= kMostOf[1] ? kFew[0] : sets <= kMostOf[2] ? kFew[1] : kFew[2];
}

// Visits choices of few sets, with the sums of their sizes, those of the fewest first. Ends when
// the visitor says so.
template <typename Visit>
void each_few(const Window& window, const std::vector<Blocks>& sets, Visit visit) {
  std::vector<Bytes> size;
  for (const Blocks& set : sets) size.push_back(size_of(window, set));
  Few few{};
  const auto choose = [&](const auto& self, std::size_t at, std::size_t count, std::size_t below,
                          Bytes sum) -> bool {
    if (at == count) return visit(sum, few);
    for (std::size_t set = 0; set < below; ++set) {
      few[at] = static_cast<std::int16_t>(set + 1);
      if (!self(self, at + 1, count, set, sum + size[set])) return false;
    }
    few[at] = 0;
    return true;
  };
  for (std::size_t count = 1; count <= most_of(sets.size()); ++count) {
    if (!choose(choose, 0, count, sets.size(), 0)) return;
  }
}

// How many choices there are of as many sets.
double choices(std::size_t sets, const Few& few) {
  double ways = 1;
  for (std::size_t i = 0; i < few.size() && few[i] > 0; ++i) {
    ways *= static_cast<double>(sets - i) / static_cast<double>(i + 1);
  }
  return std::max(ways, static_cast<double>(sets));
}

bool has(const Few& few, std::size_t set) {
  return std::find(few.begin(), few.end(), static_cast<std::int16_t>(set + 1)) != few.end();
}

bool apart(const Few& a, const Few& b) {
  return std::none_of(a.begin(), a.end(), [&](std::int16_t set) {
    return set > 0 && has(b, static_cast<std::size_t>(set - 1));
  });
}

// One set of blocks: those of the sets in `few`, or in none of several.
Blocks chosen(const std::vector<Blocks>& sets, const Few& few) {
  Blocks blocks;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (has(few, i)) blocks.insert(blocks.end(), sets[i].begin(), sets[i].end());
  }
  return blocks;
}

Blocks others(const std::vector<Blocks>& sets, const std::vector<Few>& without) {
  Blocks blocks;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (std::any_of(without.begin(), without.end(), [&](const Few& few) { return has(few, i); })) {
      continue;
    }
    blocks.insert(blocks.end(), sets[i].begin(), sets[i].end());
  }
  return blocks;
}

struct Small {
  double chance;  // how many like it
  Few out, in;
};

}  // namespace

Partitions small_holes(const Window& window, const std::vector<Blocks>& out,
                       const std::vector<Blocks>& in,
                       const std::function<bool(const Blocks&)>& possible) {
  Partitions result;
  result.complete = false;
  Bytes total = 0;
  for (const Blocks& set : out) total += size_of(window, set);
  std::vector<std::pair<Bytes, Few>> by_sum;  // of `out`
  each_few(window, out, [&](Bytes sum, const Few& few) {
    if (sum < total) by_sum.push_back({sum, few});
    return by_sum.size() < kMostLooks;
  });
  std::sort(by_sum.begin(), by_sum.end());
  std::vector<Small> found;
  each_few(window, in, [&](Bytes sum, const Few& few) {
    ++result.work;
    auto it = std::lower_bound(by_sum.begin(), by_sum.end(), std::pair(sum, Few{}));
    for (; it != by_sum.end() && it->first == sum && result.work < kMostLooks; ++it) {
      ++result.work;
      const double chance = choices(out.size(), it->second) * choices(in.size(), few);
      found.push_back({chance / static_cast<double>(total), it->second, few});
    }
    return result.work < kMostLooks;
  });
  std::stable_sort(found.begin(), found.end(),
                   [](const Small& a, const Small& b) { return a.chance < b.chance; });

  const auto add = [&](std::vector<Hole> holes, const std::vector<Few>& outs,
                       const std::vector<Few>& ins, double cost) {
    holes.push_back({others(out, outs), others(in, ins)});
    if (holes.back().out.empty() || holes.back().in.empty()) return false;
    result.ways.push_back(std::move(holes));
    result.costs.push_back(cost);
    return true;
  };
  const auto hole = [&](const Small& one) {
    return Hole{chosen(out, one.out), chosen(in, one.in)};
  };
  add({}, {}, {}, kOneHole);
  std::vector<Small> small;
  for (std::size_t i = 0; i < found.size() && small.size() < kMostSmall; ++i) {
    const Small& one = found[i];
    result.work += kAsking;
    if (result.work > 2 * kMostLooks) break;
    Hole first = hole(one);
    if (possible(first.out) && add({std::move(first)}, {one.out}, {one.in}, one.chance)) {
      small.push_back(one);
    }
  }
  for (std::size_t b = 0; b < std::min(small.size(), kMostPaired); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      const Small &one = small[a], &other = small[b];
      if (!apart(one.out, other.out) || !apart(one.in, other.in)) continue;
      add({hole(one), hole(other)}, {one.out, other.out}, {one.in, other.in},
          (one.chance + 1) * other.chance);
    }
  }
  return result;
}

}  // namespace pgmo::packing
