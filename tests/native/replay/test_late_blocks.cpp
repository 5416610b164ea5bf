// Tests of late blocks: no slot that overlaps a block past its planned end is served.

#include "check.hpp"
#include "replayer_fixture.hpp"
#include "rows.hpp"

using namespace pgmo;
using namespace pgmo::test;

TEST(a_block_that_outlives_its_plan_keeps_others_away) {
  // The slots of rows 0 and 1 overlap, but their lifetimes do not.
  ReplayerFixture f({slot(100, 1, 0), slot(100, 2, 50)});
  CHECK_EQ(f.serve(100), 0);
  CHECK_EQ(f.serve(100), kUnplanned);
  CHECK_EQ(f.missed(Miss::kLate), 1u);
  CHECK_EQ(f.counters.late, 1u);
  CHECK_EQ(f.replayer.release(0), 100);
  CHECK(f.late.empty());
  f.replayer.end_iteration();
  CHECK_EQ(f.serve(100), 0);
}

TEST(a_late_block_at_the_same_offset_is_not_the_slots_own) {
  ReplayerFixture f({slot(100, 1, 0), slot(60, 2, 0)});
  CHECK_EQ(f.serve(100), 0);
  CHECK_EQ(f.serve(60), kUnplanned);
  CHECK_EQ(f.missed(Miss::kLate), 1u);
  f.replayer.end_iteration();
  CHECK_EQ(f.serve(100), kUnplanned);
  CHECK_EQ(f.missed(Miss::kOccupied), 1u);
}

TEST(a_wrapping_block_is_late_only_when_its_end_in_the_next_iteration_is_passed) {
  // The plan has two requests. Row 1 lives in [1, 3), which is until tick 1 of the next iteration.
  ReplayerFixture f({slot(10, 1, 0), slot(20, 3, 100)});
  f.serve(10);
  f.replayer.release(0);
  CHECK_EQ(f.serve(20), 100);
  f.replayer.end_iteration();
  CHECK(f.late.empty());
  CHECK_EQ(f.serve(10), 0);
  CHECK(f.late.empty());
  f.replayer.release(0);
  CHECK_EQ(f.serve(20), kUnplanned);
  CHECK_EQ(f.missed(Miss::kOccupied), 1u);
  CHECK_EQ(f.late.size(), 1u);
}

TEST(an_iteration_cut_short_passes_the_ends_that_remain) {
  ReplayerFixture f({slot(10, 2, 0), slot(20, 3, 100), slot(30, 3, 200)});
  f.serve(10);
  f.serve(20);
  f.replayer.end_iteration();
  CHECK_EQ(f.late.size(), 1u);  // row 0 ends at 2; row 1 at 3, in the next iteration
  f.serve(10);
  CHECK_EQ(f.late.size(), 2u);
}

TEST(a_block_that_outlives_its_successors_birth_has_two_slots) {
  ReplayerFixture f({two_turns(10, 2, 0, 100)});
  CHECK_EQ(f.serve(10), 0);
  f.replayer.end_iteration();
  CHECK_EQ(f.serve(10), 100);
  f.replayer.release(0);
  f.replayer.end_iteration();
  CHECK_EQ(f.serve(10), 0);
  f.replayer.end_iteration();
  CHECK_EQ(f.serve(10), kUnplanned);
  CHECK_EQ(f.missed(Miss::kOccupied), 1u);
}

TEST(retired_blocks_are_late_until_they_are_freed) {
  ReplayerFixture f(disjoint({10, 20}));
  f.serve(10);
  f.serve(20);
  f.replayer.retire_living();
  CHECK_EQ(f.late.size(), 2u);
  CHECK_EQ(f.replayer.release(0), 0);  // the replayer has forgotten the block
  CHECK_EQ(f.serve(10), kUnplanned);
  CHECK_EQ(f.late.erase(0), 10);
  CHECK_EQ(f.serve(20), kUnplanned);
}

// --- the set itself -----------------------------------------------------------------------------

TEST(an_empty_set_overlaps_nothing) {
  const LateSet late;
  CHECK(late.empty());
  CHECK(!late.overlaps(0, 1 << 30));
}

TEST(ranges_are_half_open) {
  LateSet late;
  late.insert(100, 50);
  CHECK(late.overlaps(100, 50));
  CHECK(late.overlaps(149, 1));
  CHECK(late.overlaps(99, 2));
  CHECK(late.overlaps(0, 1000));
  CHECK(late.overlaps(120, 1));
  CHECK(!late.overlaps(150, 10));
  CHECK(!late.overlaps(90, 10));
}

TEST(looks_at_both_neighbours) {
  LateSet late;
  late.insert(0, 10);
  late.insert(100, 10);
  CHECK(!late.overlaps(10, 90));
  CHECK(late.overlaps(9, 90));
  CHECK(late.overlaps(10, 91));
  CHECK(!late.overlaps(110, 5));
}

TEST(an_erased_block_no_longer_counts) {
  LateSet late;
  late.insert(64, 32);
  CHECK_EQ(late.erase(65), 0);
  CHECK_EQ(late.erase(64), 32);
  CHECK_EQ(late.erase(64), 0);
  CHECK(!late.overlaps(64, 32));
  CHECK(late.empty());
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
