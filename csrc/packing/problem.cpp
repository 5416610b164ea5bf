#include "packing/problem.hpp"

#include <algorithm>
#include <numeric>

namespace pgmo::packing {
namespace {

void rotate(Ring& ring, Rank by) {
  for (BlockId i = 0; i < ring.blocks(); ++i) {
    const Rank shift = ring.begin[i] >= by ? by : by - ring.ranks;
    ring.begin[i] -= shift;
    ring.end[i] -= shift;
  }
}

// Merge consecutive ranks between which no block ends: all blocks alive at the earlier ranks are
// also alive at the last rank.
void join_ranks(Ring& ring) {
  std::vector<Rank> section(static_cast<std::size_t>(ring.ranks) + 1);
  for (const Rank end : ring.end) section[end <= ring.ranks ? end : end - ring.ranks] = 1;
  section[0] = 0;
  section[ring.ranks] = 1;
  std::partial_sum(section.begin(), section.end(), section.begin());
  const Rank sections = section[ring.ranks];
  for (BlockId i = 0; i < ring.blocks(); ++i) {
    ring.begin[i] = section[ring.begin[i]];
    ring.end[i] = ring.end[i] <= ring.ranks ? section[ring.end[i]]
                                            : sections + section[ring.end[i] - ring.ranks];
  }
  ring.ranks = sections;
}

}  // namespace

std::vector<Bytes> load_of(Rank ranks, const std::vector<Bytes>& size,
                           const std::vector<Rank>& begin, const std::vector<Rank>& end) {
  std::vector<Bytes> load(static_cast<std::size_t>(ranks) + 1);  // differences, then sums
  for (std::size_t i = 0; i < size.size(); ++i) {
    load[begin[i]] += size[i];
    load[std::min(end[i], ranks)] -= size[i];
    if (end[i] > ranks) {
      load[0] += size[i];
      load[end[i] - ranks] -= size[i];
    }
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  load.pop_back();
  return load;
}

Ring make_ring(const Problem& problem) {
  const std::size_t n = problem.size.size();
  std::vector<Tick> starts = problem.lower;
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  const auto rank_of = [&](Tick tick) {
    return static_cast<Rank>(std::lower_bound(starts.begin(), starts.end(), tick) - starts.begin());
  };

  Ring ring;
  ring.ranks = static_cast<Rank>(starts.size());
  ring.circular = problem.period > 0;
  ring.size.resize(n);
  ring.begin.resize(n);
  ring.end.resize(n);
  ring.lifetime.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    ring.size[i] = round_up(problem.size[i], problem.alignment);
    ring.lifetime[i] = problem.upper[i] - problem.lower[i];
    ring.begin[i] = rank_of(problem.lower[i]);
    const bool wraps = ring.circular && problem.upper[i] > problem.period;
    ring.end[i] =
        wraps ? ring.ranks + rank_of(problem.upper[i] - problem.period) : rank_of(problem.upper[i]);
  }
  if (n == 0) return ring;

  const std::vector<Bytes> load = load_of(ring.ranks, ring.size, ring.begin, ring.end);
  ring.max_load = *std::max_element(load.begin(), load.end());
  if (ring.circular) {
    rotate(ring, static_cast<Rank>(std::min_element(load.begin(), load.end()) - load.begin()));
  }
  join_ranks(ring);
  return ring;
}

}  // namespace pgmo::packing
