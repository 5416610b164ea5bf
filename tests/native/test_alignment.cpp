// Tests of anchors: pairs of equal tokens in the order of both iterations, and the gaps between
// them. Tests of gaps without anchors: pairs against the best possible score, and windows in large
// gaps.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "alignment/anchors.hpp"
#include "alignment/windows.hpp"
#include "check.hpp"

using namespace pgmo::alignment;

namespace {

constexpr std::int64_t kUnpaired = -1;  // entry of a request without a pair

struct Iteration {
  std::vector<std::int64_t> token;
  std::vector<double> size;
  std::vector<std::uint64_t> stream;

  void add(std::int64_t bytes, std::uint64_t on) {
    token.push_back(2 * bytes + static_cast<std::int64_t>(on));
    size.push_back(static_cast<double>(bytes));
    stream.push_back(on);
  }
  Requests requests() const { return {token, size, stream}; }
};

int score(const Iteration& a, const Iteration& b, double ratio, std::size_t i, std::size_t j) {
  if (a.stream[i] != b.stream[j]) return 0;
  if (a.token[i] == b.token[j]) return 6;
  return std::abs(b.size[j] / a.size[i] - ratio) < 1e-6 ? 5 : 3;
}

// Return the best score of all ways to pair the remaining requests, by recursion.
int most(const Iteration& a, const Iteration& b, double ratio, std::size_t i, std::size_t j) {
  if (i == a.size.size() || j == b.size.size()) return 0;
  return std::max({most(a, b, ratio, i + 1, j), most(a, b, ratio, i, j + 1),
                   score(a, b, ratio, i, j) + most(a, b, ratio, i + 1, j + 1)});
}

std::vector<std::int64_t> pair(const Iteration& a, const Iteration& b, double ratio) {
  std::vector<std::int64_t> row(b.size.size(), kUnpaired);
  const std::vector<double> ratios{ratio};
  Windows(a.requests(), b.requests(), ratios).fill({0, a.size.size(), 0, b.size.size()}, row);
  return row;
}

TEST(anchors_and_gaps_cover_both_in_order) {
  std::mt19937_64 chance(5);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::int64_t> a, b;
    for (std::uint64_t n = chance() % 60; n > 0; --n) {
      a.push_back(static_cast<std::int64_t>(chance() % 8));
    }
    for (std::uint64_t n = chance() % 60; n > 0; --n) {
      b.push_back(static_cast<std::int64_t>(chance() % 8));
    }
    std::vector<std::int64_t> row(b.size(), kUnpaired);
    const std::vector<Gap> gaps = Anchors(a, b, 8, chance() % 60).pair(row);
    std::vector<bool> in_gap(b.size());
    for (const Gap& gap : gaps) {
      CHECK(gap.low < gap.high && gap.high <= a.size());
      CHECK(gap.left < gap.right && gap.right <= b.size());
      for (std::size_t j = gap.left; j < gap.right; ++j) {
        CHECK(!in_gap[j] && row[j] == kUnpaired);
        in_gap[j] = true;
      }
    }
    std::int64_t before = -1;
    for (const std::int64_t one : row) {
      if (one == kUnpaired) continue;
      CHECK(before < one && one < static_cast<std::int64_t>(a.size()));
      before = one;
    }
  }
}

TEST(small_gaps_have_the_best_score) {
  std::mt19937_64 chance(3);
  for (int round = 0; round < 400; ++round) {
    Iteration a, b;
    for (std::uint64_t n = chance() % 6; n > 0; --n)
      a.add(static_cast<std::int64_t>(1 + chance() % 4), chance() % 2);
    for (std::uint64_t n = chance() % 6; n > 0; --n)
      b.add(static_cast<std::int64_t>(1 + chance() % 4), chance() % 2);
    int found = 0;
    std::int64_t before = -1;
    const std::vector<std::int64_t> row = pair(a, b, 2.0);
    for (std::size_t j = 0; j < row.size(); ++j) {
      if (row[j] == kUnpaired) continue;
      CHECK(row[j] > before);
      before = row[j];
      found += score(a, b, 2.0, static_cast<std::size_t>(row[j]), j);
    }
    CHECK_EQ(found, most(a, b, 2.0, 0, 0));
  }
}

TEST(large_gaps_are_paired_in_windows) {
  std::mt19937_64 chance(7);
  Iteration a, b;
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 0; i < 3000; ++i) {
    const std::int64_t bytes = 64 * (1 + static_cast<std::int64_t>(chance() % 40));
    a.add(bytes, 0);
    if (chance() % 50 == 0) continue;  // missing in the other iteration
    b.add(bytes * 3, 0);
    expected.push_back(i);
  }
  const std::vector<std::int64_t> row = pair(a, b, 3.0);
  std::size_t right = 0;
  for (std::size_t j = 0; j < row.size(); ++j) right += row[j] == expected[j];
  // If one of two equal neighbours is missing, either may be paired.
  CHECK(right * 100 >= row.size() * 95);
}

}  // namespace

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
