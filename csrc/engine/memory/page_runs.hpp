// Neighbouring pages that are used at the same times, and whether two such runs can be one.
//
//     arena 0   ▓▓▓▓▓▓░░░░░░░░░░░░▓▓▓     freed at 6; stream 1 comes after that from tick 8 on
//     arena 1   ░░░░░░░░▓▓▓▓▓▓░░░░░░░     begins at 8: both are one. At 7 it would have to wait
//
// Pages go from one stream to another only where the program itself has ordered the two, so that
// whoever waits for the last user waits for what is done in any case.

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

// A time in which blocks of one arena lie there.
struct PageSpan {
  Tick from;
  Tick to;
  std::uint32_t arena;
  std::uint32_t plan;
  const Tick* behind;  // as in PageUse
};

using Spans = std::vector<PageSpan>;  // sorted, disjoint

struct PageRun {
  std::vector<ArenaPage> firsts;  // in each arena that it is of
  std::size_t pages;
  Spans spans;
};

// When several blocks lie there one after the other, others come after the last of them.
class Latest {
 public:
  explicit Latest(std::uint32_t arenas) : arenas_(arenas) {}

  const Tick* of(const Tick* one, const Tick* other);

 private:
  std::uint32_t arenas_;
  std::deque<std::vector<Tick>> rows_;
};

// Of one arena.
std::vector<PageRun> runs_of(const std::vector<PageUse>& uses, std::uint32_t arena, Latest& latest);

// How often more than before a page of both changes hands in an iteration; nothing: they live at
// the same time, or would have to wait for each other.
std::optional<std::size_t> changes(const Spans& one, const Spans& other,
                                   std::span<const PlanTicks> plans);

// `count` pages from the front of both become pages of one run.
PageRun joined(PageRun& run, PageRun& other, std::size_t count);

}  // namespace pgmo
