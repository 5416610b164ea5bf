// Tests of the evaluation of choices against a replay that counts every use, and of the search.

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "check.hpp"
#include "dice.hpp"
#include "recompute/min_cut.hpp"
#include "recompute/search.hpp"
#include "recompute/step.hpp"

using namespace pgmo;
using namespace pgmo::recompute;

namespace {

Columns random_columns(Dice& dice, Index forward, Index backward) {
  Columns columns{forward, {{0}, {}}, {{0}, {}}, {}, {}, {}, {}, {}, {}};
  const auto value = [&](Index producer) {
    columns.size.push_back(dice.roll(0, 9));
    columns.producer.push_back(producer);
    columns.result.push_back(dice.roll(0, 6) == 0);
    columns.pinned.push_back(dice.roll(0, 6) == 0);
  };
  value(-1);
  for (Index operation = 0; operation < forward + backward; ++operation) {
    std::set<Index> reads;
    const int known = static_cast<int>(columns.size.size());
    for (int i = dice.roll(0, 3); i > 0; --i) reads.insert(dice.roll(0, known - 1));
    columns.reads.items.insert(columns.reads.items.end(), reads.begin(), reads.end());
    columns.reads.begin.push_back(static_cast<Index>(columns.reads.items.size()));
    for (int i = dice.roll(0, 2); i > 0; --i) {
      columns.writes.items.push_back(static_cast<Index>(columns.size.size()));
      value(operation);
    }
    columns.writes.begin.push_back(static_cast<Index>(columns.writes.items.size()));
    columns.cost.push_back(dice.roll(0, 5));
    columns.workspace.push_back(dice.roll(0, 2) == 0 ? 7 : 0);
  }
  return columns;
}

// Run the operations in order. The live values at each are those that were written before and are
// read later.
Evaluation replay(const Columns& columns, const Choice& choice) {
  const auto lost = [&](Index value) {
    const Index producer = columns.producer[at(value)];
    return producer >= 0 && producer < columns.forward && choice[at(producer)] != 0 &&
           columns.pinned[at(value)] == 0 && columns.result[at(value)] == 0;
  };
  std::vector<std::pair<Index, bool>> steps;
  for (Index operation = 0; operation < columns.forward; ++operation) {
    steps.push_back({operation, false});
  }
  std::set<Index> again;
  double cost = 0;
  for (Index operation = columns.forward; operation < static_cast<Index>(columns.cost.size());
       ++operation) {
    std::set<Index> missing;
    std::vector<Index> stack{operation};
    while (!stack.empty()) {
      const Index reader = stack.back();
      stack.pop_back();
      for (const Index value : columns.reads[reader]) {
        const Index producer = columns.producer[at(value)];
        if (lost(value) && !again.contains(producer) && missing.insert(producer).second) {
          stack.push_back(producer);
        }
      }
    }
    for (const Index producer : missing) {
      steps.push_back({producer, true});
      cost += columns.cost[at(producer)];
    }
    again.insert(missing.begin(), missing.end());
    steps.push_back({operation, false});
  }
  const auto read_within = [&](Index value, std::size_t from, std::size_t to) {
    for (std::size_t step = from; step < to; ++step) {
      const auto reads = columns.reads[steps[step].first];
      if (std::find(reads.begin(), reads.end(), value) != reads.end()) return true;
    }
    return false;
  };
  Bytes peak = 0;
  std::vector<std::size_t> born(columns.size.size(), steps.size());
  std::vector<bool> remade(columns.size.size(), false);
  for (std::size_t now = 0; now < steps.size(); ++now) {
    const auto [operation, twice] = steps[now];
    Bytes live = columns.workspace[at(operation)];
    for (const Index value : columns.writes[operation]) {
      live += columns.size[at(value)];
    }
    for (Index value = 0; value < static_cast<Index>(columns.size.size()); ++value) {
      if (columns.producer[at(value)] < 0 || born[at(value)] >= now) continue;
      const bool early = now < at(columns.forward);
      const std::size_t to =
          lost(value) && !remade[at(value)] ? (early ? at(columns.forward) : 0) : steps.size();
      if (columns.result[at(value)] != 0 || read_within(value, now, to)) {
        live += columns.size[at(value)];
      }
    }
    for (const Index value : columns.writes[operation]) {
      if (!twice) born[at(value)] = now;
      if (twice && lost(value)) remade[at(value)] = true;
    }
    peak = std::max(peak, live);
  }
  return {peak, cost, 0};
}

Choice random_choice(Dice& dice, Index forward) {
  Choice choice;
  for (Index i = 0; i < forward; ++i) choice.push_back(dice.roll(0, 1) == 1);
  return choice;
}

}  // namespace

TEST(an_evaluation_is_a_replay) {
  int twice = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    Dice dice(seed);
    const Columns columns = random_columns(dice, dice.roll(0, 12), dice.roll(0, 12));
    Step step(columns);
    for (int i = 0; i < 3; ++i) {
      const Choice choice = random_choice(dice, columns.forward);
      const Evaluation found = step.evaluate(choice), wanted = replay(columns, choice);
      CHECK_EQ(found.peak, wanted.peak);
      CHECK_EQ(found.cost, wanted.cost);
      twice += wanted.cost > 0;
    }
  }
  CHECK(twice > 1000);
}

TEST(a_search_keeps_what_it_says_and_stops_when_told) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Dice dice(seed);
    const Columns columns = random_columns(dice, 30, 30);
    Step step(columns);
    std::vector<Index> candidates;
    for (Index i = 0; i < columns.forward; ++i) candidates.push_back(i);
    const Choice nothing(at(columns.forward), 0);
    const auto never = [] { return false; };
    const Evaluation start = step.evaluate(nothing);
    const SearchResult least = search(step, candidates, nothing, {kLeast, 3000, seed, never});
    const Evaluation check = step.evaluate(least.choice);
    CHECK_EQ(check.peak, least.outcome.peak);
    CHECK_EQ(check.cost, least.outcome.cost);
    CHECK(least.outcome.peak <= start.peak);
    CHECK(least.evaluations <= 3001);
    const Bytes budget = (least.outcome.peak + start.peak) / 2;
    const SearchLimits limits{budget, 3000, seed, never};
    const SearchResult fits = search(step, candidates, least.choice, limits);
    CHECK(fits.outcome.peak <= budget);
    CHECK(fits.outcome.cost <= least.outcome.cost);
    CHECK(search(step, candidates, least.choice, limits).choice == fits.choice);
    const SearchResult cut =
        search(step, candidates, nothing, {budget, 1 << 30, seed, [] { return true; }});
    CHECK(cut.evaluations <= 256);
  }
}

TEST(columns_that_contradict_each_other_are_refused) {
  Dice dice(1);
  const Columns good = random_columns(dice, 5, 5);
  const auto refused = [](const Columns& columns) {
    try {
      const Step step(columns);
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  CHECK(!refused(good));
  Columns bad = good;
  bad.forward = 11;
  CHECK(refused(bad));
  bad = good;
  bad.cost.pop_back();
  CHECK(refused(bad));
  bad = good;
  bad.producer[0] = 10;
  CHECK(refused(bad));
  bad = good;
  bad.reads.items.assign(bad.reads.items.size(), 1000);
  CHECK(refused(bad) || bad.reads.items.empty());
}

TEST(a_minimum_cut_is_the_least_of_all) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Dice dice(seed);
    const int nodes = dice.roll(2, 7);
    std::vector<Edge> edges;
    for (int i = dice.roll(0, 16); i > 0; --i) {
      edges.push_back({dice.roll(0, nodes - 1), dice.roll(0, nodes - 1), dice.roll(0, 9)});
    }
    std::int64_t least = INT64_MAX;
    for (unsigned side = 1; side < 1U << (nodes - 1); side += 2) {  // with node 0, without the last
      std::int64_t across = 0;
      for (const Edge& edge : edges) {
        if ((side >> edge.tail & 1) != 0 && (side >> edge.head & 1) == 0) across += edge.capacity;
      }
      least = std::min(least, across);
    }
    CHECK_EQ(min_cut(nodes, edges, 0, nodes - 1).capacity, least);
  }
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
