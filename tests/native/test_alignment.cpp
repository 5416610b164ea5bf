// Pairs of two iterations: in the order of both, on one stream, and the right ones where few
// requests are missing.

#include <cstdint>
#include <random>
#include <vector>

#include "alignment/pairing.hpp"
#include "check.hpp"

using namespace pgmo::alignment;

namespace {

constexpr std::int64_t kUnpaired = -1;  // in a row of pairs

struct Iteration {
  std::vector<std::int64_t> token;
  std::vector<std::int64_t> size;
  std::vector<std::uint64_t> stream;

  void add(std::int64_t bytes, std::uint64_t on) {
    token.push_back(2 * bytes + static_cast<std::int64_t>(on));
    size.push_back(bytes);
    stream.push_back(on);
  }
  Requests requests() const { return {token, size, stream}; }
};

std::vector<std::int64_t> pair(const Iteration& a, const Iteration& b, std::size_t tokens) {
  std::vector<std::int64_t> row(b.size.size());
  Pairing(a.requests(), b.requests(), tokens, pgmo::process_heuristics).pair(row);
  return row;
}

TEST(pairs_are_in_order_and_of_one_stream) {
  std::mt19937_64 chance(5);
  for (int round = 0; round < 2000; ++round) {
    Iteration a, b;
    for (Iteration* one : {&a, &b}) {
      for (std::uint64_t n = chance() % 60; n > 0; --n) {
        one->add(static_cast<std::int64_t>(1 + chance() % 8), chance() % 2);
      }
    }
    const std::vector<std::int64_t> row = pair(a, b, 18);
    std::int64_t before = -1;
    for (std::size_t j = 0; j < row.size(); ++j) {
      if (row[j] == kUnpaired) continue;
      CHECK(before < row[j] && row[j] < static_cast<std::int64_t>(a.size.size()));
      CHECK(a.stream[static_cast<std::size_t>(row[j])] == b.stream[j]);
      before = row[j];
    }
  }
}

TEST(requests_at_another_shape_are_found_where_some_are_missing) {
  std::mt19937_64 chance(7);
  Iteration a, b;
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 0; i < 3000; ++i) {
    const std::int64_t bytes = 64 * (1 + static_cast<std::int64_t>(chance() % 40));
    a.add(bytes, 0);
    if (chance() % 50 == 0) continue;  // missing in the other one
    b.add(bytes * 3, 0);
    expected.push_back(i);
  }
  const std::vector<std::int64_t> row = pair(a, b, 64 * 3 * 2 * 41);
  std::size_t right = 0;
  for (std::size_t j = 0; j < row.size(); ++j) right += row[j] == expected[j];
  CHECK(right * 100 >= row.size() * 90);
}

}  // namespace

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
