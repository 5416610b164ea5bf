#include "engine/memory/page_runs.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pgmo {
namespace {

bool is_earlier(const PageSpan& one, const PageSpan& other) {
  return one.from < other.from;
}

Spans united(Spans spans, LatestOrder& latest) {
  std::sort(spans.begin(), spans.end(), is_earlier);
  std::size_t kept = 0;
  for (const PageSpan& span : spans) {
    if (kept > 0 && span.from <= spans[kept - 1].to && span.plan == spans[kept - 1].plan) {
      PageSpan& last = spans[kept - 1];
      last.to = std::max(last.to, span.to);
      last.behind = latest.later(last.behind, span.behind);
    } else {
      spans[kept++] = span;
    }
  }
  spans.resize(kept);
  return spans;
}

// Return whether both uses are of one arena, the program orders `other` after `one`, or the order
// is unknown. `turns`: 0 if both uses are in one iteration; the iteration's length in ticks if
// `other` is in the next iteration.
bool in_order(const PageSpan& one, const PageSpan& other, Tick turns) {
  if (one.arena == other.arena || one.behind == nullptr) return true;
  return other.from + turns >= one.behind[other.arena];
}

// Return the number of hand-overs between streams, in one iteration of each plan. Return nullopt if
// the program does not order the two streams of a hand-over.
std::optional<std::size_t> hand_overs(const Spans& spans, std::span<const PlanTicks> plans) {
  std::size_t count = 0;
  for (auto begin = spans.begin(); begin != spans.end();) {
    const std::uint32_t plan = begin->plan;
    auto end = begin;
    while (end != spans.end() && end->plan == plan) ++end;
    for (auto at = begin; at != end; ++at) {
      const bool is_last = std::next(at) == end;
      const PageSpan& next = is_last ? *begin : *std::next(at);
      const Tick turns = is_last ? plans[plan].count : 0;
      if (!in_order(*at, next, turns)) return std::nullopt;
      count += at->arena != next.arena;
    }
    // An iteration of another plan may follow, and may use the page from its first tick on.
    const PageSpan& last = *std::prev(end);
    for (const PageSpan& other : spans) {
      if (other.plan == plan || other.arena == last.arena || last.behind == nullptr) continue;
      if (last.behind[other.arena] > plans[plan].begin + plans[plan].count) return std::nullopt;
    }
    begin = end;
  }
  return count;
}

}  // namespace

const Tick* LatestOrder::later(const Tick* one, const Tick* other) {
  if (one == nullptr || other == nullptr) return one == nullptr ? other : one;
  if (std::equal(one, one + arenas_, other)) return one;
  std::vector<Tick>& row = rows_.emplace_back(arenas_);
  std::transform(one, one + arenas_, other, row.begin(),
                 [](Tick first, Tick second) { return std::max(first, second); });
  return row.data();
}

std::vector<PageRun> runs_of(const std::vector<PageUse>& uses, std::uint32_t arena,
                             LatestOrder& latest) {
  std::vector<std::size_t> borders;
  for (const PageUse& use : uses) {
    if (use.arena != arena) continue;
    borders.push_back(use.first);
    borders.push_back(use.last + 1);
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  std::vector<Spans> spans(borders.size());
  for (const PageUse& use : uses) {
    if (use.arena != arena) continue;
    auto at = static_cast<std::size_t>(std::lower_bound(borders.begin(), borders.end(), use.first) -
                                       borders.begin());
    for (; borders[at] <= use.last; ++at) {
      spans[at].push_back({use.from, use.to, arena, use.plan, use.behind});
    }
  }
  std::vector<PageRun> runs;
  for (std::size_t at = 0; at + 1 < borders.size(); ++at) {
    if (spans[at].empty()) continue;
    runs.push_back({{{arena, borders[at]}},
                    borders[at + 1] - borders[at],
                    united(std::move(spans[at]), latest)});
  }
  return runs;
}

std::optional<std::size_t> changes(const Spans& one, const Spans& other,
                                   std::span<const PlanTicks> plans) {
  Spans both;
  both.reserve(one.size() + other.size());
  std::merge(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(both),
             is_earlier);
  for (std::size_t at = 1; at < both.size(); ++at) {
    if (both[at].from < both[at - 1].to) return std::nullopt;
  }
  const auto count = hand_overs(both, plans);
  if (!count) return std::nullopt;
  return *count - hand_overs(one, plans).value_or(0) - hand_overs(other, plans).value_or(0);
}

PageRun joined(PageRun& run, PageRun& other, std::size_t count) {
  PageRun both{other.firsts, count, {}};
  both.firsts.insert(both.firsts.end(), run.firsts.begin(), run.firsts.end());
  std::merge(run.spans.begin(), run.spans.end(), other.spans.begin(), other.spans.end(),
             std::back_inserter(both.spans), is_earlier);
  for (PageRun* const part : {&run, &other}) {
    part->pages -= count;
    for (ArenaPage& first : part->firsts) first.page += count;
  }
  return both;
}

}  // namespace pgmo
