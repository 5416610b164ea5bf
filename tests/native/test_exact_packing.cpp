// Tests of exact packing against enumeration, and of the reduction against the whole problem.

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "check.hpp"
#include "dice.hpp"
#include "packing/exact/branch_and_bound.hpp"
#include "packing/exact/exact_search.hpp"
#include "packing/exact/search_order.hpp"
#include "packing/exact/window.hpp"

using namespace pgmo;
using namespace pgmo::packing;

namespace {

// Return a problem with few or many sizes, on a line or a circle, aligned or not.
Problem random_problem(Dice& dice, int blocks, int ticks) {
  Problem problem;
  problem.period = dice.roll(0, 1) == 1 ? ticks : 0;
  problem.alignment = dice.roll(0, 3) > 0 ? 1 : dice.roll(2, 5);
  const int largest = dice.roll(0, 1) == 1 ? 4 : 60;
  for (int i = 0; i < blocks; ++i) {
    const int lower = dice.roll(0, ticks - 1);
    const int longest = dice.roll(0, 3) > 0 ? std::max(1, ticks / 2) : ticks;
    const int upper = lower + dice.roll(1, longest);
    problem.lower.push_back(lower);
    problem.upper.push_back(problem.period > 0 ? upper : std::min(upper, ticks));
    problem.size.push_back(dice.roll(1, largest));
  }
  return problem;
}

bool meet(const Problem& problem, std::size_t a, std::size_t b) {
  for (const Tick turn : {-problem.period, Tick{0}, problem.period}) {
    if (problem.lower[a] < problem.upper[b] + turn && problem.lower[b] + turn < problem.upper[a]) {
      return true;
    }
  }
  return false;
}

bool valid(const Problem& problem, const Ring& ring, const Offsets& offsets) {
  for (std::size_t a = 0; a < offsets.size(); ++a) {
    if (offsets[a] < 0 || offsets[a] % problem.alignment != 0) return false;
    for (std::size_t b = 0; b < a; ++b) {
      if (meet(problem, a, b) && offsets[a] < offsets[b] + ring.size[b] &&
          offsets[b] < offsets[a] + ring.size[a]) {
        return false;
      }
    }
  }
  return true;
}

// Place each block in turn at the lowest free offset.
Offsets place(const Problem& problem, const Ring& ring, const std::vector<std::size_t>& order) {
  Offsets offsets(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    Offset& offset = offsets[order[i]] = 0;
    for (std::size_t j = 0; j < i;) {
      const std::size_t other = order[j++];
      if (meet(problem, order[i], other) && offset < offsets[other] + ring.size[other] &&
          offsets[other] < offset + ring.size[order[i]]) {
        offset = offsets[other] + ring.size[other];
        j = 0;
      }
    }
  }
  return offsets;
}

// Return the smallest arena. Some order of placing leads to it.
Bytes enumerate(const Problem& problem, const Ring& ring) {
  std::vector<std::size_t> order(problem.size.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Bytes best = arena_of(ring, place(problem, ring, order));
  while (std::next_permutation(order.begin(), order.end())) {
    best = std::min(best, arena_of(ring, place(problem, ring, order)));
  }
  return best;
}

Offsets stacked(const Ring& ring) {
  Offsets offsets;
  Offset top = 0;
  for (const Bytes size : ring.size) {
    offsets.push_back(top);
    top += size;
  }
  return offsets;
}

// Return the least height of a window, after all lower heights were proved impossible. Return -1 if
// undecided.
Bytes least_height(const Window& window, std::uint64_t order, Offsets& offsets) {
  for (Bytes capacity = window.load;; ++capacity) {
    ExactSearch search(window, capacity, search_order(window, 0, order));
    const auto state = search.run(1'000'000, [] { return false; });
    if (state == ExactSearch::State::kOpen) return -1;
    if (state == ExactSearch::State::kInfeasible) continue;
    offsets = search.offsets();
    return height_of(window, offsets);
  }
}

}  // namespace

TEST(search_of_the_windows_finds_what_enumeration_finds) {
  int above_load = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Dice dice(seed);
    const Problem problem = random_problem(dice, dice.roll(4, 7), dice.roll(3, 9));
    const Ring ring = make_ring(problem);
    const Reduction reduction = reduce(ring, 0);  // spares no block
    CHECK(reduction.spared.empty());
    Offsets offsets = reduction.offsets;
    for (const Window& window : reduction.windows) {
      Offsets part;
      CHECK(least_height(window, seed % 20, part) >= window.load);
      for (BlockId i = 0; i < window.blocks(); ++i)
        offsets[window.block[i]] = window.bytes(part[i]);
    }
    const Bytes least = enumerate(problem, ring);
    CHECK(valid(problem, ring, offsets));
    CHECK_EQ(arena_of(ring, offsets), least);
    above_load += least > ring.max_load;
  }
  CHECK(above_load > 10);  // otherwise no proof of impossibility was tested
}

TEST(the_reduced_problem_needs_what_the_whole_one_needs) {
  int sunk = 0, several = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Dice dice(seed);
    const int ticks = dice.roll(5, 12);
    Problem problem = random_problem(dice, dice.roll(8, 13), ticks);
    if (problem.period == 0 && seed % 2 == 0) {  // two problems in a row, which never meet
      for (std::size_t i = problem.size.size(); i-- > 0;) {
        problem.size.push_back(problem.size[i] + dice.roll(0, 1));
        problem.lower.push_back(problem.lower[i] + ticks);
        problem.upper.push_back(problem.upper[i] + ticks);
      }
    }
    const Ring ring = make_ring(problem);
    // A window of all ranks and all blocks.
    Window whole;
    whole.block.resize(ring.size.size());
    std::iota(whole.block.begin(), whole.block.end(), 0);
    whole.size = ring.size;
    whole.begin = ring.begin;
    whole.end = ring.end;
    whole.lifetime = ring.lifetime;
    whole.sections = ring.ranks;
    whole.load = ring.max_load;
    Offsets offsets;
    const Bytes least = least_height(whole, seed % 20, offsets);
    CHECK(valid(problem, ring, offsets));

    const Reduction reduction = reduce(ring, 0);
    several += reduction.windows.size() > 1;
    sunk += reduction.arena > 0;
    Bytes reduced = reduction.arena;
    for (const Window& window : reduction.windows) {
      reduced = std::max(reduced, window.bytes(least_height(window, seed % 20, offsets)));
    }
    CHECK_EQ(reduced, least);

    const Offsets first = stacked(ring);
    Monitor monitor(first, arena_of(ring, first), ring.max_load, Clock::time_point::max());
    const Improvement found = branch_and_bound(ring, first, monitor, {2, seed});
    CHECK(valid(problem, ring, found.offsets));
    CHECK_EQ(found.arena, least);
    CHECK_EQ(arena_of(ring, found.offsets), least);
    CHECK_EQ(monitor.bound(), least);
  }
  CHECK(sunk > 50);
  CHECK(several > 5);
}

TEST(spared_blocks_fit_below_the_bound_wherever_the_others_lie) {
  int spared = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    Dice dice(seed);
    const Problem problem = random_problem(dice, dice.roll(5, 40), dice.roll(6, 60));
    const Ring ring = make_ring(problem);
    const Reduction reduction = reduce(ring, ring.max_load);
    spared += static_cast<int>(reduction.spared.size());
    // Pack all blocks in any way. The remaining blocks keep their offsets.
    std::vector<std::size_t> order(ring.size.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), dice.twister);
    Offsets offsets = place(problem, ring, order);
    for (const BlockId block : reduction.spared) offsets[block] = -ring.size[block];
    const Bytes others = arena_of(ring, offsets);
    restore(ring, reduction, offsets);
    CHECK(valid(problem, ring, offsets));
    CHECK(arena_of(ring, offsets) <= std::max(others, ring.max_load));
  }
  CHECK(spared > 2000);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
