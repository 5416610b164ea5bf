// Runs of neighbouring pages with equal times of use, and whether two runs can share pages.
//
//     arena 0   ▓▓▓▓▓▓░░░░░░░░░░░░▓▓▓     freed at 6; stream 1 is ordered after that from tick 8 on
//     arena 1   ░░░░░░░░▓▓▓▓▓▓░░░░░░░     in use from 8: both runs can share pages. If arena 1 used
//                                         them from 7, stream 1 would have to wait for stream 0
//
// If the order of streams is known, pages move between two streams only where the program itself
// orders them. So sharing adds no wait. If the order is unknown, only the times of use count.

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

// Combines the `behind` rows of several blocks on one page. The next user of the page waits for all
// these blocks. Owns the combined rows.
class LatestOrder {
 public:
  explicit LatestOrder(std::uint32_t arenas) : arenas_(arenas) {}

  // Return the maximum of two rows, arena by arena. Ignore a row that is null (order unknown).
  const Tick* later(const Tick* one, const Tick* other);

 private:
  std::uint32_t arenas_;
  std::deque<std::vector<Tick>> rows_;
};

// Return the runs of one arena, sorted by page. Throws std::bad_alloc, as do all functions here.
std::vector<PageRun> runs_of(const std::vector<PageUse>& uses, std::uint32_t arena,
                             LatestOrder& latest);

// Return how many hand-overs between streams a shared page adds, in one iteration of each plan.
// Return nullopt if the two runs are in use at the same time, or if the program does not order a
// user of the page after the previous user.
std::optional<std::size_t> changes(const Spans& one, const Spans& other,
                                   std::span<const PlanTicks> plans);

// Move `count` pages from the front of both runs into one shared run, and return it.
PageRun joined(PageRun& run, PageRun& other, std::size_t count);

}  // namespace pgmo
