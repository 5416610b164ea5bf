// Back to what was left behind: jumps that prove wrong, and parts of a program that come once more.

#include <vector>

#include "check.hpp"
#include "replayer_fixture.hpp"
#include "rows.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

constexpr Bytes kUnlike = 900;  // and more: sizes that no plan here has

// Rows of a size each, which live to the end.
std::vector<PlannedRequest> all_different(std::size_t rows) {
  std::vector<Bytes> sizes;
  for (std::size_t row = 0; row < rows; ++row) sizes.push_back(static_cast<Bytes>(100 + row));
  return disjoint(sizes);
}

Offset serve_row(ReplayerFixture& f, Bytes row) {
  return f.serve(100 + row);
}

void miss(ReplayerFixture& f, int times) {
  for (int time = 0; time < times; ++time) CHECK_EQ(f.serve(kUnlike + time), kUnplanned);
}

// Two requests that the plan has one after the other, far ahead.
void jump_to(ReplayerFixture& f, Bytes row) {
  CHECK_EQ(serve_row(f, row - 1), kUnplanned);
  CHECK_EQ(serve_row(f, row), static_cast<Offset>(1000 * row));
}

constexpr int kAstray = static_cast<int>(tuning::kAstray);

}  // namespace

TEST(a_jump_that_proves_wrong_is_taken_back) {
  ReplayerFixture f(all_different(80));
  CHECK_EQ(serve_row(f, 0), 0);
  jump_to(f, 50);
  miss(f, kAstray);
  CHECK_EQ(serve_row(f, 1), 1000);
  CHECK_EQ(serve_row(f, 2), 2000);
  CHECK_EQ(f.counters.returns, 1u);
}

TEST(of_several_that_prove_wrong_the_first_one_is_taken_back) {
  ReplayerFixture f(all_different(150));
  CHECK_EQ(serve_row(f, 0), 0);
  jump_to(f, 50);
  miss(f, 4);
  jump_to(f, 120);
  miss(f, 4);
  CHECK_EQ(serve_row(f, 1), 1000);
  CHECK_EQ(f.counters.returns, 1u);
}

TEST(a_jump_that_the_program_follows_is_not_taken_back) {
  ReplayerFixture f(all_different(200));
  CHECK_EQ(serve_row(f, 0), 0);
  jump_to(f, 50);
  for (Bytes row = 51; row < 120; ++row) {
    CHECK_EQ(serve_row(f, row), static_cast<Offset>(1000 * row));
  }
  miss(f, 3 * kAstray);
  CHECK_EQ(serve_row(f, 120), 120'000);
  CHECK_EQ(f.counters.returns, 0u);
}

TEST(after_a_wrong_jump_the_next_one_needs_one_more_reason) {
  ReplayerFixture f(all_different(150));
  CHECK_EQ(serve_row(f, 0), 0);
  jump_to(f, 50);
  miss(f, kAstray);
  CHECK_EQ(serve_row(f, 1), 1000);
  miss(f, 1);
  CHECK_EQ(serve_row(f, 70), kUnplanned);
  CHECK_EQ(serve_row(f, 71), kUnplanned);  // two in a row are not enough any more
  CHECK_EQ(serve_row(f, 72), 72'000);
  f.replayer.end_iteration();
  CHECK_EQ(serve_row(f, 0), kUnplanned);  // its block is alive
  jump_to(f, 90);
}

TEST(what_was_served_after_a_wrong_jump_keeps_its_place) {
  std::vector<PlannedRequest> rows = all_different(80);
  rows[2].end = 5;
  rows[50].offset = rows[2].offset;  // they are never alive together
  ReplayerFixture f(rows);
  CHECK_EQ(serve_row(f, 0), 0);
  CHECK_EQ(serve_row(f, 49), kUnplanned);
  CHECK_EQ(serve_row(f, 50), 2000);
  miss(f, kAstray);
  CHECK_EQ(serve_row(f, 1), 1000);
  CHECK_EQ(serve_row(f, 2), kUnplanned);
  CHECK_EQ(f.missed(Miss::kLate), 1u);
  CHECK_EQ(f.replayer.release(2000), 150);
  CHECK_EQ(serve_row(f, 3), 3000);
}

TEST(ends_that_a_wrong_jump_has_passed_are_passed_again) {
  std::vector<PlannedRequest> rows = all_different(80);
  rows[1].end = 4;
  rows[5].offset = rows[1].offset;
  ReplayerFixture f(rows);
  CHECK_EQ(serve_row(f, 0), 0);
  jump_to(f, 50);
  miss(f, kAstray);
  CHECK_EQ(serve_row(f, 1), 1000);  // and lives longer than planned
  for (Bytes row = 2; row < 5; ++row) serve_row(f, row);
  CHECK_EQ(f.late.size(), 2u);  // with that of row 50
  CHECK_EQ(serve_row(f, 5), kUnplanned);
}

TEST(what_was_skipped_by_a_wrong_jump_is_not_served_twice) {
  ReplayerFixture f(all_different(80));
  CHECK_EQ(serve_row(f, 0), 0);
  jump_to(f, 50);
  miss(f, kAstray);
  CHECK_EQ(serve_row(f, 1), 1000);
  CHECK_EQ(serve_row(f, 45), kUnplanned);  // it lies ahead again
}

TEST(a_part_that_comes_once_more_is_found_behind) {
  ReplayerFixture f(all_different(60));
  for (Bytes row = 0; row < 40; ++row) serve_row(f, row);
  for (Bytes row = 10; row < 30; ++row) f.replayer.release(1000 * row);
  for (Bytes row = 10; row < 17; ++row) CHECK_EQ(serve_row(f, row), kUnplanned);
  for (Bytes row = 17; row < 30; ++row) CHECK_EQ(serve_row(f, row), 1000 * row);
  CHECK_EQ(f.counters.repeats, 1u);
  CHECK_EQ(serve_row(f, 30), kUnplanned);  // alive, from when it came first
  CHECK_EQ(f.missed(Miss::kOccupied), 1u);
}

TEST(so_is_one_at_another_length) {
  std::vector<PlannedRequest> rows = all_different(40);
  for (PlannedRequest& row : rows) row.varying = true;
  ReplayerFixture f(rows);
  const auto half = [&](Bytes row) { return f.serve((100 + row) / 2); };
  for (Bytes row = 0; row < 40; row += 2) {
    half(row);
    f.serve(100 + row + 1);
  }
  for (Bytes row = 0; row < 40; ++row) f.replayer.release(1000 * row);
  Offset last = kUnplanned;
  for (Bytes row = 10; row < 18; row += 2) {
    half(row);
    last = f.serve(100 + row + 1);
  }
  CHECK_EQ(last, 17'000);
}

TEST(small_change_that_comes_once_more_leads_nowhere) {
  std::vector<PlannedRequest> rows;
  for (Bytes row = 0; row < 40; ++row) {
    rows.push_back(slot(row < 30 ? 1 + row : 200'000 + row, 40, 300'000 * row));
  }
  Surroundings surroundings;
  Replayer replayer(ReplayPlan(rows, 300'000 * 40, 1), surroundings);
  for (const PlannedRequest& row : rows) replayer.serve(make_key(row.bytes, 0));
  for (const PlannedRequest& row : rows) replayer.release(row.offset);
  for (Bytes row = 4; row < 24; ++row) {
    CHECK_EQ(replayer.serve(make_key(1 + row, 0)), kUnplanned);
  }
  CHECK_EQ(surroundings.counters.repeats, 0u);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
