// Runs of neighbouring pages with the same use times, and whether two runs can share pages.
//
//     arena 0   ▓▓▓▓▓▓░░░░░░░░░░░░▓▓▓     freed at 6; stream 1 is ordered after that from tick 8 on
//     arena 1   ░░░░░░░░▓▓▓▓▓▓░░░░░░░     begins at 8: they can share. From 7 it would have to wait
//
// Pages move between streams only where the program itself orders the two. Waiting for the last
// user then costs nothing extra.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "engine/memory/sharing.hpp"
#include "types.hpp"

namespace pgmo {

// A time span in which blocks of one arena occupy a page.
struct PageSpan {
  Tick from;
  Tick to;
  std::uint32_t arena;
  std::uint32_t plan;
  const Tick* behind;  // as in PageUse
};

using Spans = std::vector<PageSpan>;  // sorted, disjoint

struct PageRun {
  std::vector<ArenaPage> firsts;  // the first page in each arena that shares the run
  std::size_t pages;
  Spans spans;
};

// Combines the orders of several blocks on a page: users wait for the latest. Owns the rows that it
// returns pointers to.
class Latest {
 public:
  explicit Latest(std::uint32_t arenas) : arenas_(arenas) {}

  const Tick* of(const Tick* one, const Tick* other);

 private:
  std::uint32_t arenas_;
  std::deque<std::vector<Tick>> rows_;
};

// Return the runs of one arena.
std::vector<PageRun> runs_of(const std::vector<PageUse>& uses, std::uint32_t arena, Latest& latest);

// Return how many more hand-overs per iteration a shared page has; nullopt if the two runs are used
// at the same time, or would have to wait for each other.
std::optional<std::size_t> changes(const Spans& one, const Spans& other,
                                   std::span<const PlanTicks> plans);

// Move `count` pages from the front of both runs into one shared run, and return it.
PageRun joined(PageRun& run, PageRun& other, std::size_t count);

}  // namespace pgmo
