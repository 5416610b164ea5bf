// Sweeps against exact search, and the tree of orders against all orders.

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "check.hpp"
#include "dice.hpp"
#include "packing/exact/exact_search.hpp"
#include "packing/exact/search_order.hpp"
#include "packing/sweep/sweep_search.hpp"

using namespace pgmo;
using namespace pgmo::packing;

namespace {

// A window whose sections all hold one load. At each turnover some of a stack end, next to one
// another or anywhere, and others of the same size begin: it may have a packing or none.
Window seamless(Dice& dice, Rank sections, int load, int largest, bool neighbours) {
  Window window;
  window.sections = sections;
  window.load = load;
  std::vector<BlockId> stack;
  const auto fill = [&](std::size_t at, Rank from, Bytes room) {
    while (room > 0) {
      const Bytes size = std::min<Bytes>(dice.roll(1, largest), room);
      room -= size;
      stack.insert(stack.begin() + static_cast<std::ptrdiff_t>(at), window.blocks());
      window.block.push_back(window.blocks());
      window.size.push_back(size);
      window.lifetime.push_back(1);
      window.begin.push_back(from);
      window.end.push_back(sections);
    }
  };
  fill(0, 0, load);
  for (Rank s = 1; s < sections; ++s) {
    if (!neighbours) std::shuffle(stack.begin(), stack.end(), dice.twister);
    const auto first = static_cast<std::size_t>(dice.roll(0, static_cast<int>(stack.size()) - 1));
    const std::size_t last =
        std::min(stack.size(), first + static_cast<std::size_t>(dice.roll(1, 3)));
    Bytes room = 0;
    for (std::size_t i = first; i < last; ++i) {
      window.end[stack[i]] = s;
      room += window.size[stack[i]];
    }
    stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(first),
                stack.begin() + static_cast<std::ptrdiff_t>(last));
    fill(first, s, room);
  }
  return window;
}

// A circle whose sections all hold one load: a stack of which some neighbours at a time give way to
// others, until it is as it was. Then some blocks of one size exchange their ends, so that there
// may be no packing any more.
Window seamless_circle(Dice& dice, int moves, int load, int largest, int exchanges) {
  struct Piece {
    Bytes low, high;
    Rank begin;
  };
  const auto pieces = [&](Bytes low, Bytes high, Rank begin) {
    std::vector<Piece> between;
    while (low < high) {
      const Bytes to = std::min<Bytes>(low + dice.roll(1, largest), high);
      between.push_back({low, to, begin});
      low = to;
    }
    return between;
  };
  std::vector<Piece> stack = pieces(0, load, 0);
  std::vector<Piece> last = stack;
  std::map<Bytes, Rank> ends;  // of the first ones, by where they are
  Window window;
  window.load = load;
  const auto add = [&](const Piece& piece, Rank end) {
    window.block.push_back(window.blocks());
    window.size.push_back(piece.high - piece.low);
    window.lifetime.push_back(1);
    window.begin.push_back(piece.begin);
    window.end.push_back(end);
  };
  Rank now = 0;
  const auto replace = [&](std::size_t from, std::size_t to, const std::vector<Piece>& by) {
    const auto first = stack.begin() + static_cast<std::ptrdiff_t>(from);
    const auto end = stack.begin() + static_cast<std::ptrdiff_t>(to);
    for (auto it = first; it != end; ++it) {
      if (it->begin == 0) {
        ends[it->low] = now;
      } else {
        add(*it, now);
      }
    }
    stack.insert(stack.erase(first, end), by.begin(), by.end());
  };
  for (; now < moves; ++now) {
    if (now == 0) continue;
    const auto from = static_cast<std::size_t>(dice.roll(0, static_cast<int>(stack.size()) - 1));
    const std::size_t to = std::min(stack.size(), from + static_cast<std::size_t>(dice.roll(1, 3)));
    replace(from, to, pieces(stack[from].low, stack[to - 1].high, now));
  }
  std::shuffle(last.begin(), last.end(), dice.twister);
  for (const Piece& piece : last) {
    std::size_t from = 0, to = 0;
    while (stack[from].high <= piece.low) ++from;
    while (stack[to].high < piece.high) ++to;
    std::vector<Piece> by = pieces(stack[from].low, piece.low, now);
    by.push_back({piece.low, piece.high, now});
    const std::vector<Piece> above = pieces(piece.high, stack[to].high, now);
    by.insert(by.end(), above.begin(), above.end());
    replace(from, to + 1, by);
    ++now;
  }
  window.sections = now - 1;  // the stack after the last move is that of the beginning
  for (const Piece& piece : stack) {
    const Rank turns = piece.begin == window.sections ? 0 : window.sections;
    add({piece.low, piece.high, piece.begin % window.sections}, turns + ends.at(piece.low));
  }
  for (int i = 0; i < exchanges; ++i) {
    const auto a = static_cast<std::size_t>(dice.roll(0, window.blocks() - 1));
    const auto b = static_cast<std::size_t>(dice.roll(0, window.blocks() - 1));
    const Rank begin = std::max(window.begin[a], window.begin[b]);
    const bool longest = std::max(window.end[a] - window.begin[b],
                                  window.end[b] - window.begin[a]) > window.sections;
    if (window.size[a] != window.size[b] || longest) continue;
    if (begin < std::min(window.end[a], window.end[b])) std::swap(window.end[a], window.end[b]);
  }
  return window;
}

bool meet(const Window& window, BlockId a, BlockId b) {
  for (Rank s = window.begin[a]; s < window.end[a]; ++s) {
    for (Rank t = window.begin[b]; t < window.end[b]; ++t) {
      if ((s - t) % window.sections == 0) return true;
    }
  }
  return false;
}

bool apart(const Window& window, const Offsets& offsets) {
  for (BlockId a = 0; a < window.blocks(); ++a) {
    if (offsets[a] < 0 || offsets[a] + window.size[a] > window.load) return false;
    for (BlockId b = 0; b < a; ++b) {
      if (offsets[a] < offsets[b] + window.size[b] && offsets[b] < offsets[a] + window.size[a] &&
          meet(window, a, b)) {
        return false;
      }
    }
  }
  return true;
}

bool never() {
  return false;
}

}  // namespace

TEST(the_tree_has_an_order_as_long_as_there_is_one) {
  int impossible = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Dice dice(seed);
    const int n = dice.roll(3, 7);
    PqTree tree(static_cast<std::size_t>(n));
    std::vector<PqTree::Leaf> leaves(static_cast<std::size_t>(n));
    std::iota(leaves.begin(), leaves.end(), 0);
    PqTree::Node root = tree.any_order(leaves);
    std::vector<std::vector<PqTree::Leaf>> sets;
    const auto kept = [&](const std::vector<PqTree::Leaf>& order) {
      return std::all_of(sets.begin(), sets.end(), [&](const auto& set) {
        const auto in = [&](PqTree::Leaf leaf) {
          return std::find(set.begin(), set.end(), leaf) != set.end();
        };
        const auto first = std::find_if(order.begin(), order.end(), in);
        return std::all_of(first, first + static_cast<std::ptrdiff_t>(set.size()), in);
      });
    };
    while (root != PqTree::kNone && sets.size() < 6) {
      std::vector<PqTree::Leaf> set = leaves;
      std::shuffle(set.begin(), set.end(), dice.twister);
      set.resize(static_cast<std::size_t>(dice.roll(2, n - 1)));
      sets.push_back(set);
      root = tree.gather(root, set, {});
      std::vector<PqTree::Leaf> order = leaves;
      bool possible = kept(order);
      while (!possible && std::next_permutation(order.begin(), order.end())) possible = kept(order);
      CHECK_EQ(possible, root != PqTree::kNone);
      if (root == PqTree::kNone) {
        ++impossible;
        continue;
      }
      std::vector<PqTree::Leaf> found = tree.order(root);
      CHECK(kept(found));
      std::sort(found.begin(), found.end());
      CHECK(found == leaves);
      Reasons why;
      CHECK_EQ(tree.together(root, set, why).size(), std::size_t{1});
    }
  }
  CHECK(impossible > 500);
}

TEST(sweeps_find_or_refute_what_exact_search_does) {
  int found = 0, refuted = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Dice dice(seed);
    const Window window =
        seamless(dice, dice.roll(3, 11), dice.roll(6, 30), dice.roll(3, 10), dice.roll(0, 5) == 0);
    CHECK(is_seamless(window));
    ExactSearch exact(window, window.load, search_order(window, 0, seed % 20));
    const auto truth = exact.run(1'000'000, never);
    if (truth == ExactSearch::State::kOpen) continue;
    SweepSearch search(window, seed, seed % 3, 1 + seed % 2);
    const Sweep::State state = search.run(100'000, never);
    if (state == Sweep::State::kFound) {
      ++found;
      CHECK(apart(window, search.offsets()));
    }
    refuted += state == Sweep::State::kInfeasible;
    CHECK(state ==
          (truth == ExactSearch::State::kFound ? Sweep::State::kFound : Sweep::State::kInfeasible));
  }
  CHECK(found > 1000);
  CHECK(refuted > 20);
}

TEST(sweeps_find_packings_of_many_blocks_that_no_cuts_made) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Dice dice(seed);
    const Window window = seamless(dice, 150, 4096, 256, true);
    SweepSearch search(window, seed, 0, 1);
    CHECK(search.run(100'000, never) == Sweep::State::kFound);
    CHECK(apart(window, search.offsets()));
  }
}

TEST(sweeps_of_circles_find_or_refute_what_exact_search_does) {
  int found = 0, refuted = 0, missed = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Dice dice(seed);
    const Window window = seamless_circle(dice, dice.roll(1, 8), dice.roll(6, 24), dice.roll(3, 9),
                                          seed % 3 == 0 ? 0 : dice.roll(1, 6));
    CHECK(is_seamless(window));
    if (!SweepSearch::suits(window)) continue;
    ExactSearch exact(window, window.load, search_order(window, 0, seed % 20));
    const auto truth = exact.run(200'000, never);
    SweepSearch search(window, seed, seed % 3, 1 + seed % 2);
    const Sweep::State state = search.run(20'000, never);
    if (state == Sweep::State::kFound) {
      ++found;
      CHECK(apart(window, search.offsets()));
      CHECK(truth != ExactSearch::State::kInfeasible);
    } else if (state == Sweep::State::kInfeasible) {
      ++refuted;
      CHECK(truth != ExactSearch::State::kFound);
      CHECK(seed % 3 != 0);
    } else {
      missed += truth == ExactSearch::State::kFound;
    }
  }
  CHECK(found > 2000);
  CHECK(refuted > 20);
  CHECK(missed < 30);
}

TEST(sweeps_find_packings_of_circles_of_many_blocks) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Dice dice(seed);
    const Window window = seamless_circle(dice, 120, 4096, 512, 0);
    SweepSearch search(window, seed, 0, 1);
    CHECK(search.run(100'000, never) == Sweep::State::kFound);
    CHECK(apart(window, search.offsets()));
  }
}

TEST(what_is_not_full_in_every_section_is_left_alone) {
  Dice dice(1);
  Window window = seamless(dice, 5, 20, 6, true);
  CHECK(SweepSearch::suits(window));
  --window.size[0];
  CHECK(!SweepSearch::suits(window));
  window = seamless_circle(dice, 5, 20, 6, 0);
  CHECK(SweepSearch::suits(window));
  --window.end.back();
  CHECK(!SweepSearch::suits(window));
}

TEST(a_window_that_takes_long_to_look_at_is_left_alone) {
  Window window;
  window.sections = 200;
  window.load = 14 * 64;
  for (Rank s = 0; s < window.sections; ++s) {
    for (int i = 0; i < 14; ++i) {
      window.block.push_back(window.blocks());
      window.size.push_back(64);
      window.lifetime.push_back(1);
      window.begin.push_back(s);
      window.end.push_back(s + 1);
    }
  }
  CHECK(is_seamless(window));
  CHECK(!SweepSearch::suits(window));
}

// Each block of the first section becomes three, of which one ends at last. One of what begins then
// needs the places of three of these; no more than two can be neighbours, and all the others have
// as many ways as there are orders.
TEST(ways_to_part_what_ends_are_not_followed_for_ever) {
  constexpr Rank kMany = 13;
  Window window;
  window.sections = kMany + 2;
  window.load = 8 * kMany;
  const auto add = [&](Bytes size, Rank begin, Rank end) {
    window.block.push_back(window.blocks());
    window.size.push_back(size);
    window.lifetime.push_back(1);
    window.begin.push_back(begin);
    window.end.push_back(end);
  };
  for (Rank i = 0; i < kMany; ++i) {
    add(8, 0, i + 1);
    add(2, i + 1, kMany + 1);
    add(3, i + 1, window.sections);
    add(3, i + 1, window.sections);
  }
  add(6, kMany + 1, window.sections);
  for (Rank i = 3; i < kMany; ++i) add(2, kMany + 1, window.sections);
  CHECK(SweepSearch::suits(window));
  SweepSearch search(window, 0, 0, 1);
  CHECK(search.run(100, never) == Sweep::State::kOpen);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
