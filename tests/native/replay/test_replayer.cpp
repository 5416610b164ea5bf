// Tests of the order of requests: requests left out, skipped requests, and anchors further ahead.

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

TEST(a_release_returns_the_bytes_once) {
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
  // Row 0 lives until tick 1. The slot of row 1 has the same bytes.
  ReplayerFixture f({slot(10, 1, 0), slot(20, 2, 0)});
  CHECK_EQ(f.serve(20), 0);
  CHECK_EQ(f.serve(10), kUnplanned);
}

TEST(a_smaller_request_alone_does_not_skip_a_larger_one) {
  ReplayerFixture f(disjoint({50, 60, 8, 50, 8}));
  CHECK_EQ(f.serve(8), kUnplanned);
  CHECK_EQ(f.serve(50), 0);
  CHECK_EQ(f.serve(60), 1000);
  CHECK_EQ(f.serve(8), 2000);
}

TEST(two_requests_in_a_row_skip_larger_ones) {
  ReplayerFixture f(disjoint({50, 8, 7, 50}));
  CHECK_EQ(f.serve(8), kUnplanned);
  CHECK_EQ(f.serve(7), 2000);
  CHECK_EQ(f.serve(50), 3000);
  CHECK_EQ(f.counters.jumps, 0u);
}

TEST(beyond_the_window_one_request_leads_nowhere) {
  std::vector<Bytes> sizes(kDefaults.look_ahead + 2, 10);
  sizes[kDefaults.look_ahead] = 77;
  ReplayerFixture f(disjoint(sizes));
  CHECK_EQ(f.serve(77), kUnplanned);
  sizes[kDefaults.look_ahead - 1] = 77;
  ReplayerFixture nearer(disjoint(sizes));
  CHECK_EQ(nearer.serve(77), static_cast<Offset>(1000 * (kDefaults.look_ahead - 1)));
}

TEST(an_anchor_leads_further_ahead) {
  std::vector<Bytes> sizes(200, 10);
  for (const std::size_t row : {100u, 140u, 150u}) sizes[row] = 77;
  for (const std::size_t row : {125u, 141u, 155u}) sizes[row] = 88;
  ReplayerFixture f(disjoint(sizes));
  CHECK_EQ(f.serve(77), kUnplanned);
  CHECK_EQ(f.serve(88), 141'000);
  CHECK_EQ(f.counters.jumps, 1u);
}

TEST(a_pair_that_the_plan_has_twice_is_no_anchor) {
  std::vector<Bytes> sizes(200, 10);
  for (const std::size_t row : {100u, 140u}) sizes[row] = 77;
  for (const std::size_t row : {101u, 141u}) sizes[row] = 88;
  ReplayerFixture f(disjoint(sizes));
  CHECK_EQ(f.serve(77), kUnplanned);
  CHECK_EQ(f.serve(88), kUnplanned);
  CHECK_EQ(f.serve(10), 0);
}

TEST(no_anchor_leads_back) {
  std::vector<Bytes> sizes(100, 10);
  sizes[10] = 77;
  sizes[11] = 88;
  ReplayerFixture f(disjoint(sizes));
  for (const Bytes bytes : sizes) f.serve(bytes);
  f.replayer.release(10'000);
  f.replayer.release(11'000);
  CHECK_EQ(f.serve(77), kUnplanned);
  CHECK_EQ(f.serve(88), kUnplanned);
}

TEST(skipped_requests_are_served_within_the_window_only) {
  std::vector<Bytes> sizes(3 * kDefaults.look_ahead, 10);
  sizes[0] = 9;
  sizes[1] = 8;
  ReplayerFixture f(disjoint(sizes));
  CHECK_EQ(f.serve(10), 2000);
  CHECK_EQ(f.serve(8), 1000);
  for (SlotIndex row = 3; row < 2 * kDefaults.look_ahead; ++row) f.serve(10);
  CHECK_EQ(f.serve(9), kUnplanned);
}

TEST(a_persistent_request_misses_and_is_passed) {
  ReplayerFixture f({persistent(10), slot(20, 2, 0)});
  CHECK_EQ(f.serve(10), kUnplanned);
  CHECK_EQ(f.missed(Miss::kPersistent), 1u);
  CHECK_EQ(f.serve(20), 0);
}

TEST(begin_at_continues_in_the_middle) {
  ReplayerFixture f(disjoint({10, 20, 30}));
  f.replayer.restart();
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
  CHECK_EQ(f.replayer.prefix_score(exact), 2 * Replayer::kFullScore);
  CHECK_EQ(f.replayer.prefix_score(smaller), Replayer::kFullScore + Replayer::kFullScore / 2);
  CHECK_EQ(f.replayer.prefix_score(larger), -1);
  CHECK_EQ(f.replayer.prefix_score(longer), -1);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
