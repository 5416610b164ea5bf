#include "packing/sweep/partition.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "packing/sweep/small_holes.hpp"

namespace pgmo::packing {
namespace {

constexpr std::size_t kMostWays = 100;
constexpr std::size_t kMostWork = 300'000;  // looks at sets, some milliseconds
constexpr std::size_t kAsking = 50;         // looks that take as long as one at a tree

// Sets are numbered from 0; masks are of sets.
class Parting {
 public:
  Parting(const Window& window, const std::vector<Blocks>& out, const std::vector<Blocks>& in,
          const std::function<bool(const Blocks&)>& possible, Partitions& result)
      : out_(out), in_(in), possible_(possible), result_(result) {
    out_sums_ = subset_sums(window, out);
    const std::vector<Bytes> sums = subset_sums(window, in);
    for (std::uint32_t mask = 1; mask + 1 < sums.size(); ++mask)
      by_sum_.push_back({sums[mask], mask});
    std::sort(by_sum_.begin(), by_sum_.end());
    all_out_ = static_cast<std::uint32_t>(out_sums_.size() - 1);
    all_in_ = static_cast<std::uint32_t>(sums.size() - 1);
  }

  void run() { part(all_out_, all_in_); }

 private:
  // Ways to go on when these sets are left.
  void part(std::uint32_t out, std::uint32_t in) {
    if (result_.ways.size() >= kMostWays) result_.complete = false;
    if (!result_.complete) return;
    if (out == all_out_ || can_be(out)) {
      holes_.push_back({united(out_, out), united(in_, in)});
      result_.ways.push_back(holes_);
      holes_.pop_back();
    }
    // The hole of the first set that is left, if it is not all.
    const std::uint32_t first = out & -out, rest = out ^ first;
    for (std::uint32_t others = (rest - 1) & rest; rest != 0; others = (others - 1) & rest) {
      try_hole(first | others, out, in);
      if (others == 0 || !result_.complete) break;
    }
  }

  void try_hole(std::uint32_t hole, std::uint32_t out, std::uint32_t in) {
    auto it = std::lower_bound(by_sum_.begin(), by_sum_.end(), std::pair(out_sums_[hole], 0u));
    bool asked = false;
    work(1);
    for (; it != by_sum_.end() && it->first == out_sums_[hole]; ++it) {
      work(1);
      if ((it->second & ~in) != 0) continue;
      if (!asked && !can_be(hole)) return;
      asked = true;
      holes_.push_back({united(out_, hole), united(in_, it->second)});
      part(out ^ hole, in ^ it->second);
      holes_.pop_back();
      if (!result_.complete) return;
    }
  }

  bool can_be(std::uint32_t out) {
    work(kAsking);
    return possible_(united(out_, out));
  }

  // Where hardly any way leads to an end, there may be as many dead ends as there are orders.
  void work(std::size_t looks) {
    result_.work += looks;
    if (result_.work > kMostWork) result_.complete = false;
  }

  static Blocks united(const std::vector<Blocks>& sets, std::uint32_t mask) {
    Blocks blocks;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      if ((mask >> i & 1) != 0) blocks.insert(blocks.end(), sets[i].begin(), sets[i].end());
    }
    return blocks;
  }

  const std::vector<Blocks>&out_, &in_;
  const std::function<bool(const Blocks&)>& possible_;
  Partitions& result_;
  std::vector<Bytes> out_sums_;
  std::vector<std::pair<Bytes, std::uint32_t>> by_sum_;  // of `in`
  std::uint32_t all_out_ = 0, all_in_ = 0;
  std::vector<Hole> holes_;
};

Blocks joined(const std::vector<Blocks>& sets) {
  Blocks blocks;
  for (const Blocks& set : sets) blocks.insert(blocks.end(), set.begin(), set.end());
  return blocks;
}

}  // namespace

Partitions partitions(const Window& window, const std::vector<Blocks>& out,
                      const std::vector<Blocks>& in,
                      const std::function<bool(const Blocks&)>& possible, bool small) {
  Partitions result;
  const bool few = out.size() <= kMostSets && in.size() <= kMostSets;
  if (out.size() < 2 || in.size() < 2 || (!few && !small)) {
    result.ways = {{{joined(out), joined(in)}}};
    result.complete = out.size() < 2 || in.size() < 2;
    return result;
  }
  if (few) {
    Parting(window, out, in, possible, result).run();
    Bytes size = 0;
    for (const BlockId block : joined(out)) size += window.size[block];
    result.chance =
        (std::exp2(out.size() - 1) - 1) * (std::exp2(in.size()) - 2) / static_cast<double>(size);
    if (result.complete || !small) return result;
  }
  Partitions simple = small_holes(window, out, in, possible);
  simple.work += result.work;
  return simple;
}

}  // namespace pgmo::packing
