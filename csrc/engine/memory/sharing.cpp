#include "engine/memory/sharing.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/memory/page_runs.hpp"

namespace pgmo {
namespace {

// Two runs that can share pages: one of the current arena, and one of the arenas before it.
struct Pair {
  std::size_t run;
  std::size_t other;
  std::size_t partners;  // number of pages that could be shared with pages of `run`
  double changes;        // added hand-overs per iteration and saved page
  std::size_t pages;     // number of pages to share
};

// Maximum number of pairs of runs to compare. Above it, the current arena shares no pages with the
// arenas before it.
constexpr std::size_t kMostPairs = std::size_t{1} << 22;

std::size_t pages_of(const std::vector<PageRun>& runs) {
  return std::accumulate(runs.begin(), runs.end(), std::size_t{0},
                         [](std::size_t sum, const PageRun& run) { return sum + run.pages; });
}

std::size_t most_at_once(const std::vector<std::vector<PageRun>>& arenas) {
  std::vector<std::pair<Tick, std::ptrdiff_t>> steps;
  for (const auto& runs : arenas) {
    for (const PageRun& run : runs) {
      const auto pages = static_cast<std::ptrdiff_t>(run.pages);
      for (const PageSpan& span : run.spans) {
        steps.emplace_back(span.from, pages);
        steps.emplace_back(span.to, -pages);
      }
    }
  }
  std::sort(steps.begin(), steps.end());  // at equal ticks, ends sort before starts
  std::ptrdiff_t now = 0;
  std::ptrdiff_t most = 0;
  for (const auto& [tick, change] : steps) most = std::max(most, now += change);
  return static_cast<std::size_t>(most);
}

std::vector<std::vector<PageRun>> runs_by_arena(const std::vector<PageUse>& uses,
                                                std::uint32_t arenas, LatestOrder& latest) {
  std::vector<std::vector<PageRun>> all;
  for (std::uint32_t arena = 0; arena < arenas; ++arena) {
    all.push_back(runs_of(uses, arena, latest));
  }
  return all;
}

enum class Order : std::uint8_t {
  kFewestChanges,  // fewest hand-overs per saved page first
  kScarcestFirst,  // runs that could share the fewest pages first
};

// Return the pairs of runs that can share pages, in the order in which to join them. Return none if
// there are more than kMostPairs pairs to compare.
std::vector<Pair> pairs_of(const std::vector<PageRun>& runs, const std::vector<PageRun>& found,
                           std::span<const PlanTicks> plans, Order order) {
  std::vector<Pair> pairs;
  if (runs.size() * found.size() > kMostPairs) return pairs;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    std::size_t partners = 0;
    const std::size_t first = pairs.size();
    for (std::size_t other = 0; other < found.size(); ++other) {
      const auto count = changes(runs[run].spans, found[other].spans, plans);
      if (!count) continue;
      partners += found[other].pages;
      const std::size_t pages = std::min(runs[run].pages, found[other].pages);
      pairs.push_back({run, other, 0, static_cast<double>(*count) / static_cast<double>(pages), 0});
    }
    for (std::size_t at = first; at < pairs.size(); ++at) pairs[at].partners = partners;
  }
  std::stable_sort(pairs.begin(), pairs.end(), [order](const Pair& one, const Pair& other) {
    if (order == Order::kScarcestFirst && one.partners != other.partners) {
      return one.partners < other.partners;
    }
    return one.changes < other.changes;
  });
  return pairs;
}

// Decide how many pages of each pair are shared, `wanted` at most in total: greedily in the order
// of the pairs, then by augmenting paths. Along a path, a run yields pages of a partner to another
// run, and takes pages of another partner.
std::vector<Pair> matched(const std::vector<PageRun>& runs, const std::vector<PageRun>& found,
                          std::span<const PlanTicks> plans, std::size_t wanted, Order order) {
  if (wanted == 0) return {};
  std::vector<Pair> pairs = pairs_of(runs, found, plans, order);
  const auto free_pages = [](const std::vector<PageRun>& of) {
    std::vector<std::size_t> pages;
    for (const PageRun& run : of) pages.push_back(run.pages);
    return pages;
  };
  std::vector<std::size_t> run_free = free_pages(runs);
  std::vector<std::size_t> other_free = free_pages(found);
  std::vector<std::vector<Pair*>> of_run(runs.size());
  std::vector<std::vector<Pair*>> of_other(found.size());
  for (Pair& pair : pairs) {
    pair.pages = std::min({run_free[pair.run], other_free[pair.other], wanted});
    run_free[pair.run] -= pair.pages;
    other_free[pair.other] -= pair.pages;
    wanted -= pair.pages;
    of_run[pair.run].push_back(&pair);
    of_other[pair.other].push_back(&pair);
  }
  while (wanted > 0) {
    // By run: the pair that gives up pages on the path to the run.
    std::vector<Pair*> to_run(runs.size());
    // By partner: the pair that takes pages on the path to the partner.
    std::vector<Pair*> to_other(found.size());
    std::vector<std::size_t> reached;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      if (run_free[run] > 0) reached.push_back(run);
    }
    std::vector<bool> seen(runs.size());
    for (const std::size_t run : reached) seen[run] = true;
    std::optional<std::size_t> end;
    for (std::size_t at = 0; at < reached.size() && !end; ++at) {
      for (Pair* const pair : of_run[reached[at]]) {
        if (to_other[pair->other] != nullptr) continue;
        to_other[pair->other] = pair;
        if (other_free[pair->other] > 0) {
          end = pair->other;
          break;
        }
        for (Pair* const taken : of_other[pair->other]) {
          if (taken->pages == 0 || seen[taken->run]) continue;
          seen[taken->run] = true;
          to_run[taken->run] = taken;
          reached.push_back(taken->run);
        }
      }
    }
    if (!end) break;
    std::size_t count = std::min(wanted, other_free[*end]);
    std::size_t begin = 0;
    for (const Pair* pair = to_other[*end];; pair = to_other[to_run[begin]->other]) {
      begin = pair->run;
      if (to_run[begin] == nullptr) break;
      count = std::min(count, to_run[begin]->pages);
    }
    count = std::min(count, run_free[begin]);
    other_free[*end] -= count;
    run_free[begin] -= count;
    wanted -= count;
    for (Pair* pair = to_other[*end];; pair = to_other[to_run[pair->run]->other]) {
      pair->pages += count;
      if (to_run[pair->run] == nullptr) break;
      to_run[pair->run]->pages -= count;
    }
  }
  return pairs;
}

// Join the runs of all arenas until `bound` pages remain, or no two runs can be joined.
std::vector<PageRun> shared(std::vector<std::vector<PageRun>> all, std::span<const PlanTicks> plans,
                            std::size_t bound, Order order) {
  std::size_t wanted = 0;
  for (const auto& runs : all) wanted += pages_of(runs);
  wanted -= bound;
  std::vector<PageRun> found;
  for (auto& runs : all) {
    for (const Pair& pair : matched(runs, found, plans, wanted, order)) {
      if (pair.pages == 0) continue;
      wanted -= pair.pages;
      PageRun both = joined(runs[pair.run], found[pair.other], pair.pages);
      found.push_back(std::move(both));
    }
    for (PageRun& run : runs) {
      if (run.pages > 0) found.push_back(std::move(run));
    }
  }
  std::erase_if(found, [](const PageRun& run) { return run.pages == 0; });
  return found;
}

}  // namespace

std::size_t most_at_once(const std::vector<PageUse>& uses, std::uint32_t arenas) {
  LatestOrder latest(arenas);
  return most_at_once(runs_by_arena(uses, arenas, latest));
}

std::vector<std::vector<ArenaPage>> share_pages(const std::vector<PageUse>& uses,
                                                std::uint32_t arenas,
                                                std::span<const PlanTicks> plans) {
  LatestOrder latest(arenas);
  std::vector<std::vector<PageRun>> all = runs_by_arena(uses, arenas, latest);
  const std::size_t bound = most_at_once(all);
  std::stable_sort(all.begin(), all.end(), [](const auto& one, const auto& other) {
    return pages_of(one) > pages_of(other);
  });
  std::vector<PageRun> best = shared(all, plans, bound, Order::kFewestChanges);
  if (pages_of(best) > bound) {
    std::vector<PageRun> other = shared(all, plans, bound, Order::kScarcestFirst);
    if (pages_of(other) < pages_of(best)) best.swap(other);
  }
  std::vector<std::vector<ArenaPage>> pages;
  for (const PageRun& run : best) {
    for (std::size_t page = 0; page < run.pages; ++page) {
      pages.push_back(run.firsts);
      for (ArenaPage& one : pages.back()) one.page += page;
    }
  }
  return pages;
}

}  // namespace pgmo
