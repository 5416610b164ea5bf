// The order of requests: what is left out, what is skipped, and jumps to what comes far behind.

#include <vector>

#include "check.hpp"
#include "replayer_fixture.hpp"
#include "rows.hpp"

using namespace pgmo;
using namespace pgmo::test;

TEST(exact_requests_are_served_in_order) {
  ReplayerFixture f(disjoint({10, 20, 10}));
  CHECK_EQ(f.serve(10), 0);
  CHECK_EQ(f.serve(20), 1000);
  CHECK_EQ(f.serve(10), 2000);
  CHECK_EQ(f.counters.hits, 3u);
  CHECK_EQ(f.counters.hit_bytes, 40u);
}

TEST(a_release_tells_the_bytes_once) {
  ReplayerFixture f(disjoint({10}));
  CHECK_EQ(f.serve(10), 0);
  CHECK_EQ(f.replayer.release(0), 10);
  CHECK_EQ(f.replayer.release(0), 0);
  CHECK_EQ(f.replayer.release(5), 0);
}

TEST(an_unplanned_request_leaves_the_cursor) {
  ReplayerFixture f(disjoint({10, 20}));
  CHECK_EQ(f.serve(99), kUnplanned);
  CHECK_EQ(f.missed(Miss::kUnknown), 1u);
  CHECK_EQ(f.serve(10), 0);
  CHECK_EQ(f.serve(20), 1000);
}

TEST(the_stream_is_part_of_the_match) {
  ReplayerFixture f(disjoint({10, 20}));
  CHECK_EQ(f.serve(10, 1), kUnplanned);
  CHECK_EQ(f.missed(Miss::kUnknown), 1u);
  CHECK_EQ(f.serve(10, 0), 0);
}

TEST(requests_left_out_are_skipped_and_counted) {
  ReplayerFixture f(disjoint({10, 20, 30, 40}));
  CHECK_EQ(f.serve(30), 2000);
  CHECK_EQ(f.serve(40), 3000);
  f.replayer.end_iteration();
  CHECK_EQ(f.counters.skipped, 2u);
  CHECK_EQ(f.counters.jumps, 0u);
}

TEST(two_requests_that_changed_places_are_both_served) {
  ReplayerFixture f(disjoint({10, 20, 30}));
  CHECK_EQ(f.serve(20), 1000);
  CHECK_EQ(f.serve(10), 0);
  CHECK_EQ(f.serve(30), 2000);
  CHECK_EQ(f.counters.hits, 3u);
}

TEST(a_skipped_request_whose_lifetime_is_over_is_not_served) {
  // Row 0 lives until tick 1, row 1 lies on the same bytes.
  ReplayerFixture f({slot(10, 1, 0), slot(20, 2, 0)});
  CHECK_EQ(f.serve(20), 0);
  CHECK_EQ(f.serve(10), kUnplanned);
}

TEST(a_single_common_size_does_not_cause_a_far_jump) {
  std::vector<Bytes> sizes(40, 10);
  for (std::size_t row = 20; row < 40; row += 3) sizes[row] = 77;  // common, and far away
  ReplayerFixture f(disjoint(sizes));
  CHECK_EQ(f.serve(77), kUnplanned);
  CHECK_EQ(f.serve(10), 0);
  CHECK_EQ(f.counters.jumps, 0u);
}

TEST(a_single_rare_size_does_not_cause_a_far_jump_either) {
  std::vector<Bytes> sizes(40, 10);
  sizes[30] = 77;
  ReplayerFixture f(disjoint(sizes));
  CHECK_EQ(f.serve(77), kUnplanned);
  CHECK_EQ(f.serve(10), 0);
  CHECK_EQ(f.counters.jumps, 0u);
}

TEST(two_requests_in_a_row_cause_a_far_jump) {
  std::vector<Bytes> sizes(60, 10);
  for (const std::size_t row : {20u, 40u, 50u}) sizes[row] = 77;
  for (const std::size_t row : {25u, 41u, 55u}) sizes[row] = 88;
  ReplayerFixture f(disjoint(sizes));
  CHECK_EQ(f.serve(77), kUnplanned);
  CHECK_EQ(f.serve(88), 41'000);
  CHECK_EQ(f.counters.jumps, 1u);
}

// Numbers that a program copies now and then are in its plans as well, among its tensors.
TEST(small_change_does_not_tell_that_tensors_were_left_out) {
  ReplayerFixture f(disjoint({50'000, 60'000, 8, 50'000, 8}));
  CHECK_EQ(f.serve(8), kUnplanned);
  CHECK_EQ(f.serve(50'000), 0);
  CHECK_EQ(f.serve(60'000), 1000);
  CHECK_EQ(f.serve(8), 2000);
  CHECK_EQ(f.counters.hits, 3u);
}

// One may be a workspace that is not always needed. If it comes after all, it is not lost.
TEST(small_change_tells_that_one_tensor_was_left_out) {
  ReplayerFixture f({slot(50'000, 3, 0), slot(8, 3, 60'000), slot(60'000, 3, 70'000)});
  CHECK_EQ(f.serve(8), 60'000);
  CHECK_EQ(f.serve(50'000), 0);
  CHECK_EQ(f.serve(60'000), 70'000);
}

TEST(two_of_it_in_a_row_do_not_tell_that_either) {
  std::vector<Bytes> sizes(40, 50'000);
  sizes[30] = sizes[31] = 8;
  ReplayerFixture f(disjoint(sizes));
  CHECK_EQ(f.serve(8), kUnplanned);
  CHECK_EQ(f.serve(8), kUnplanned);
  CHECK_EQ(f.serve(50'000), 0);
  CHECK_EQ(f.counters.jumps, 0u);
}

TEST(small_change_behind_a_tensor_that_came_finds_its_place) {
  std::vector<Bytes> sizes(40, 50'000);
  sizes[30] = 60'000;
  sizes[31] = 8;
  ReplayerFixture f(disjoint(sizes));
  CHECK_EQ(f.serve(60'000), kUnplanned);
  CHECK_EQ(f.serve(8), 31'000);
}

TEST(small_change_among_its_like_is_looked_for_ahead) {
  ReplayerFixture f(disjoint({50'000, 4, 8, 12, 50'000}));
  CHECK_EQ(f.serve(50'000), 0);
  CHECK_EQ(f.serve(12), 3000);
  CHECK_EQ(f.serve(50'000), 4000);
}

TEST(a_persistent_request_misses_and_is_passed) {
  ReplayerFixture f({persistent(10), slot(20, 2, 0)});
  CHECK_EQ(f.serve(10), kUnplanned);
  CHECK_EQ(f.missed(Miss::kPersistent), 1u);
  CHECK_EQ(f.serve(20), 0);
}

TEST(begin_at_continues_in_the_middle) {
  ReplayerFixture f(disjoint({10, 20, 30}));
  f.replayer.rest();
  f.replayer.begin_at(2);
  CHECK_EQ(f.serve(30), 2000);
  f.replayer.end_iteration();
  CHECK_EQ(f.counters.skipped, 0u);
}

TEST(requests_beyond_the_plan_miss) {
  ReplayerFixture f(disjoint({10}));
  f.serve(10);
  CHECK_EQ(f.serve(10), kUnplanned);
  CHECK_EQ(f.serve(10), kUnplanned);
  CHECK_EQ(f.missed(Miss::kUnknown), 2u);
}

TEST(an_empty_plan_misses_everything) {
  ReplayerFixture f({});
  CHECK_EQ(f.serve(10), kUnplanned);
  f.replayer.end_iteration();
  CHECK_EQ(f.serve(10), kUnplanned);
}

TEST(prefixes_are_scored_by_how_well_they_fill_their_slots) {
  ReplayerFixture f({slot(10, 3, 0), varying(100, 3, 1000), slot(30, 3, 2000)});
  const std::vector<RequestKey> exact = {make_key(10, 0), make_key(100, 0)};
  const std::vector<RequestKey> smaller = {make_key(10, 0), make_key(50, 0)};
  const std::vector<RequestKey> larger = {make_key(10, 0), make_key(101, 0)};
  const std::vector<RequestKey> longer(4, make_key(10, 0));
  CHECK_EQ(f.replayer.prefix_score(exact), 2 * tuning::kFullScore);
  CHECK_EQ(f.replayer.prefix_score(smaller), tuning::kFullScore + tuning::kFullScore / 2);
  CHECK_EQ(f.replayer.prefix_score(larger), -1);
  CHECK_EQ(f.replayer.prefix_score(longer), -1);
  const std::vector<RequestKey> twice = {make_key(10, 0), make_key(200, 0)};
  const std::vector<RequestKey> elsewhere = {make_key(10, 0), make_key(1000, 0)};
  CHECK_EQ(f.replayer.growth_score(smaller), f.replayer.prefix_score(smaller));
  CHECK_EQ(f.replayer.growth_score(twice), tuning::kFullScore + tuning::kFullScore / 2);
  CHECK_EQ(f.replayer.growth_score(elsewhere), -1);
  CHECK_EQ(f.replayer.growth_score(longer), -1);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
