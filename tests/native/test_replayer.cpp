#include <vector>

#include "check.hpp"
#include "engine/replay/replayer.hpp"
#include "rows.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

// A replayer with what it refers to. Rows are disjoint unless a test says otherwise.
struct Fixture {
  Surroundings surroundings;
  LateSet& late = surroundings.late;
  Counters& counters = surroundings.counters;
  Replayer replayer;

  explicit Fixture(const std::vector<PlannedRequest>& rows)
      : replayer(ReplayPlan(rows, 1'000'000, 1), surroundings) {}

  Offset serve(Bytes bytes, std::uint32_t stream = 0) {
    return replayer.serve(make_key(bytes, stream));
  }
  std::uint64_t missed(Miss reason) const { return counters.misses[static_cast<int>(reason)]; }
};

std::vector<PlannedRequest> disjoint(const std::vector<Bytes>& sizes) {
  std::vector<PlannedRequest> rows;
  for (std::size_t row = 0; row < sizes.size(); ++row) {
    rows.push_back(
        slot(sizes[row], static_cast<Tick>(sizes.size()), static_cast<Offset>(1000 * row)));
  }
  return rows;
}

}  // namespace

TEST(exact_requests_are_served_in_order) {
  Fixture f(disjoint({10, 20, 10}));
  CHECK_EQ(f.serve(10), 0);
  CHECK_EQ(f.serve(20), 1000);
  CHECK_EQ(f.serve(10), 2000);
  CHECK_EQ(f.counters.hits, 3u);
  CHECK_EQ(f.counters.hit_bytes, 40u);
}

TEST(a_release_tells_the_bytes_once) {
  Fixture f(disjoint({10}));
  CHECK_EQ(f.serve(10), 0);
  CHECK_EQ(f.replayer.release(0), 10);
  CHECK_EQ(f.replayer.release(0), 0);
  CHECK_EQ(f.replayer.release(5), 0);
}

TEST(an_unplanned_request_leaves_the_cursor) {
  Fixture f(disjoint({10, 20}));
  CHECK_EQ(f.serve(99), kUnplanned);
  CHECK_EQ(f.missed(Miss::kUnknown), 1u);
  CHECK_EQ(f.serve(10), 0);
  CHECK_EQ(f.serve(20), 1000);
}

TEST(the_stream_is_part_of_the_match) {
  Fixture f(disjoint({10, 20}));
  CHECK_EQ(f.serve(10, 1), kUnplanned);
  CHECK_EQ(f.missed(Miss::kUnknown), 1u);
  CHECK_EQ(f.serve(10, 0), 0);
}

TEST(requests_left_out_are_skipped_and_counted) {
  Fixture f(disjoint({10, 20, 30, 40}));
  CHECK_EQ(f.serve(30), 2000);
  CHECK_EQ(f.serve(40), 3000);
  f.replayer.end_iteration();
  CHECK_EQ(f.counters.skipped, 2u);
  CHECK_EQ(f.counters.jumps, 0u);
}

TEST(two_requests_that_changed_places_are_both_served) {
  Fixture f(disjoint({10, 20, 30}));
  CHECK_EQ(f.serve(20), 1000);
  CHECK_EQ(f.serve(10), 0);
  CHECK_EQ(f.serve(30), 2000);
  CHECK_EQ(f.counters.hits, 3u);
}

TEST(a_skipped_request_whose_lifetime_is_over_is_not_served) {
  // Row 0 lives until tick 1, row 1 lies on the same bytes.
  Fixture f({slot(10, 1, 0), slot(20, 2, 0)});
  CHECK_EQ(f.serve(20), 0);
  CHECK_EQ(f.serve(10), kUnplanned);
}

TEST(a_single_common_size_does_not_cause_a_far_jump) {
  std::vector<Bytes> sizes(40, 10);
  for (std::size_t row = 20; row < 40; row += 3) sizes[row] = 77;  // common, and far away
  Fixture f(disjoint(sizes));
  CHECK_EQ(f.serve(77), kUnplanned);
  CHECK_EQ(f.serve(10), 0);
  CHECK_EQ(f.counters.jumps, 0u);
}

TEST(a_rare_size_causes_a_far_jump) {
  std::vector<Bytes> sizes(40, 10);
  sizes[30] = 77;
  Fixture f(disjoint(sizes));
  CHECK_EQ(f.serve(77), 30'000);
  CHECK_EQ(f.counters.jumps, 1u);
  CHECK_EQ(f.serve(10), 31'000);
}

TEST(two_requests_in_a_row_cause_a_far_jump) {
  std::vector<Bytes> sizes(60, 10);
  for (const std::size_t row : {20u, 40u, 50u}) sizes[row] = 77;
  for (const std::size_t row : {25u, 41u, 55u}) sizes[row] = 88;
  Fixture f(disjoint(sizes));
  CHECK_EQ(f.serve(77), kUnplanned);
  CHECK_EQ(f.serve(88), 41'000);
  CHECK_EQ(f.counters.jumps, 1u);
}

// Numbers that a program copies now and then are in its plans as well, among its tensors.
TEST(small_change_does_not_tell_that_tensors_were_left_out) {
  Fixture f(disjoint({50'000, 60'000, 8, 50'000, 8}));
  CHECK_EQ(f.serve(8), kUnplanned);
  CHECK_EQ(f.serve(50'000), 0);
  CHECK_EQ(f.serve(60'000), 1000);
  CHECK_EQ(f.serve(8), 2000);
  CHECK_EQ(f.counters.hits, 3u);
}

// One may be a workspace that is not always needed. If it comes after all, it is not lost.
TEST(small_change_tells_that_one_tensor_was_left_out) {
  Fixture f({slot(50'000, 3, 0), slot(8, 3, 60'000), slot(60'000, 3, 70'000)});
  CHECK_EQ(f.serve(8), 60'000);
  CHECK_EQ(f.serve(50'000), 0);
  CHECK_EQ(f.serve(60'000), 70'000);
}

TEST(two_of_it_in_a_row_do_not_tell_that_either) {
  std::vector<Bytes> sizes(40, 50'000);
  sizes[30] = sizes[31] = 8;
  Fixture f(disjoint(sizes));
  CHECK_EQ(f.serve(8), kUnplanned);
  CHECK_EQ(f.serve(8), kUnplanned);
  CHECK_EQ(f.serve(50'000), 0);
  CHECK_EQ(f.counters.jumps, 0u);
}

TEST(small_change_behind_a_tensor_that_came_finds_its_place) {
  std::vector<Bytes> sizes(40, 50'000);
  sizes[30] = 60'000;
  sizes[31] = 8;
  for (const std::size_t row : {33u, 36u}) sizes[row] = 60'000;  // so that one alone is no proof
  Fixture f(disjoint(sizes));
  CHECK_EQ(f.serve(60'000), kUnplanned);
  CHECK_EQ(f.serve(8), 31'000);
}

TEST(small_change_among_its_like_is_looked_for_ahead) {
  Fixture f(disjoint({50'000, 4, 8, 12, 50'000}));
  CHECK_EQ(f.serve(50'000), 0);
  CHECK_EQ(f.serve(12), 3000);
  CHECK_EQ(f.serve(50'000), 4000);
}

TEST(a_number_is_no_tensor_at_another_size) {
  Fixture f({varying(100'000, 2, 0), slot(30'000, 2, 200'000)});
  CHECK_EQ(f.serve(8), kUnplanned);
  CHECK_EQ(f.serve(50'000), 0);
  CHECK_EQ(f.serve(30'000), 200'000);
}

TEST(a_varying_slot_serves_smaller_requests) {
  Fixture f({varying(100, 1, 0), slot(30, 2, 1000)});
  CHECK_EQ(f.serve(60), 0);
  CHECK_EQ(f.replayer.release(0), 60);
  CHECK_EQ(f.serve(30), 1000);
}

TEST(a_larger_request_than_its_varying_slot_misses_and_is_noted) {
  Fixture f({varying(100, 1, 0), slot(30, 2, 1000)});
  CHECK_EQ(f.serve(101), kUnplanned);
  CHECK_EQ(f.missed(Miss::kTooLarge), 1u);
  const std::vector<Grown> grown = f.replayer.take_grown();
  CHECK_EQ(grown.size(), 1u);
  CHECK_EQ(grown.at(0).request, 0u);
  CHECK_EQ(grown.at(0).bytes, 101);
  CHECK(f.replayer.take_grown().empty());
  CHECK_EQ(f.serve(30), 1000);
}

TEST(a_larger_request_of_another_stream_is_not_noted) {
  Fixture f({varying(100, 1, 0), slot(30, 2, 1000)});
  CHECK_EQ(f.serve(500, 1), kUnplanned);
  CHECK_EQ(f.missed(Miss::kUnknown), 1u);
  CHECK(f.replayer.take_grown().empty());
  CHECK_EQ(f.serve(80), 0);  // the cursor stayed
}

TEST(a_varying_request_that_was_left_out_gives_way_to_the_fixed_one_behind) {
  Fixture f({varying(100, 2, 0), slot(30, 2, 1000)});
  CHECK_EQ(f.serve(30), 1000);
}

TEST(an_unknown_size_finds_the_next_varying_slot) {
  Fixture f({slot(10, 2, 0), varying(100, 2, 1000)});
  CHECK_EQ(f.serve(70), 1000);
}

// Three layers of two varying requests each, and a number in between.
std::vector<PlannedRequest> layers(Tick end = 9) {
  std::vector<PlannedRequest> rows;
  for (Offset at = 0; at < 9000; at += 3000) {
    rows.push_back(varying(100, end, at));
    rows.push_back(slot(8, end, at + 1000));
    rows.push_back(varying(400, end, at + 2000));
  }
  return rows;
}

TEST(requests_of_a_class_are_alike_in_an_iteration) {
  Fixture f(layers());
  f.serve(50);
  f.serve(8);
  CHECK_EQ(f.serve(120), 2000);  // not by half, as the other one
  CHECK_EQ(f.serve(120), 5000);  // so the first one of this layer was left out, and the number
  CHECK_EQ(f.serve(50), 6000);
}

TEST(sizes_change_by_few_ratios) {
  std::vector<PlannedRequest> rows = layers(10);
  rows.insert(rows.begin() + 2, varying(300, 9, 20'000));  // not in each iteration
  Fixture f(rows);
  f.serve(25);
  f.serve(8);
  CHECK_EQ(f.serve(100), 2000);  // a quarter of 400, and no third of 300
}

TEST(a_request_that_no_plan_knows_moves_nothing) {
  Fixture f(layers());
  f.serve(50);
  f.serve(8);
  f.serve(200);
  CHECK_EQ(f.serve(77), kUnplanned);  // today these are of 50
  CHECK_EQ(f.missed(Miss::kUnknown), 1u);
  CHECK_EQ(f.serve(50), 3000);
}

TEST(a_micro_batch_of_another_length_changes_all_sizes) {
  Fixture f(layers());
  f.serve(50);
  f.serve(8);
  f.serve(200);
  CHECK_EQ(f.serve(70), kUnplanned);
  CHECK_EQ(f.serve(8), 4000);
  CHECK_EQ(f.serve(280), 5000);
  CHECK_EQ(f.serve(70), 6000);
  CHECK_EQ(f.serve(8), 7000);
  CHECK_EQ(f.serve(280), 8000);
}

TEST(families_of_one_planned_size_are_told_apart) {
  std::vector<PlannedRequest> rows = {varying(100, 4, 0), varying(100, 4, 1000),
                                      varying(100, 4, 2000), varying(100, 4, 3000)};
  rows[1].family = rows[3].family = 1;
  Fixture f(rows);
  CHECK_EQ(f.serve(60), 0);
  CHECK_EQ(f.serve(70), 1000);
  CHECK_EQ(f.serve(70), 3000);  // the third was left out
}

TEST(an_iteration_that_outgrows_its_plan_says_so) {
  Fixture f(layers());
  CHECK(!f.replayer.outgrown());
  CHECK_EQ(f.serve(150), kUnplanned);
  CHECK_EQ(f.missed(Miss::kTooLarge), 1u);
  CHECK(f.replayer.outgrown());
  f.replayer.end_iteration();
  CHECK(!f.replayer.outgrown());
}

TEST(where_few_vary_one_that_is_far_away_is_not_taken_for_it) {
  std::vector<PlannedRequest> rows = disjoint(std::vector<Bytes>(40, 10));
  rows.push_back(varying(100, 41, 50'000));
  Fixture f(rows);
  CHECK_EQ(f.serve(70), kUnplanned);
  CHECK_EQ(f.serve(10), 0);
}

TEST(a_persistent_request_misses_and_is_passed) {
  Fixture f({persistent(10), slot(20, 2, 0)});
  CHECK_EQ(f.serve(10), kUnplanned);
  CHECK_EQ(f.missed(Miss::kPersistent), 1u);
  CHECK_EQ(f.serve(20), 0);
}

TEST(a_block_that_outlives_its_plan_keeps_others_away) {
  // Rows 0 and 1 overlap in space, one after the other in time.
  Fixture f({slot(100, 1, 0), slot(100, 2, 50)});
  CHECK_EQ(f.serve(100), 0);
  CHECK_EQ(f.serve(100), kUnplanned);
  CHECK_EQ(f.missed(Miss::kLate), 1u);
  CHECK_EQ(f.counters.late, 1u);
  CHECK_EQ(f.replayer.release(0), 100);
  CHECK(f.late.empty());
  f.replayer.end_iteration();
  CHECK_EQ(f.serve(100), 0);
}

TEST(a_late_block_at_the_same_offset_is_told_from_the_slots_own) {
  Fixture f({slot(100, 1, 0), slot(60, 2, 0)});
  CHECK_EQ(f.serve(100), 0);
  CHECK_EQ(f.serve(60), kUnplanned);
  CHECK_EQ(f.missed(Miss::kLate), 1u);
  f.replayer.end_iteration();
  CHECK_EQ(f.serve(100), kUnplanned);
  CHECK_EQ(f.missed(Miss::kOccupied), 1u);
}

TEST(a_wrapping_block_is_late_only_when_its_end_in_the_next_iteration_is_passed) {
  // Row 1 lives [1, 3): into the next iteration, until its request 1... of a plan of 2 requests.
  Fixture f({slot(10, 1, 0), slot(20, 3, 100)});
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
  Fixture f({slot(10, 2, 0), slot(20, 3, 100), slot(30, 3, 200)});
  f.serve(10);
  f.serve(20);
  f.replayer.end_iteration();
  CHECK_EQ(f.late.size(), 1u);  // row 0 ended at 2; row 1 at 3, which is tick 0 of the next
  f.serve(10);
  CHECK_EQ(f.late.size(), 2u);
}

TEST(a_block_that_outlives_its_successors_birth_has_two_slots) {
  Fixture f({two_turns(10, 2, 0, 100)});
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
  Fixture f(disjoint({10, 20}));
  f.serve(10);
  f.serve(20);
  f.replayer.retire_living();
  CHECK_EQ(f.late.size(), 2u);
  CHECK_EQ(f.replayer.release(0), 0);  // no longer the replayer's
  CHECK_EQ(f.serve(10), kUnplanned);
  CHECK_EQ(f.late.erase(0), 10);
  CHECK_EQ(f.serve(20), kUnplanned);
}

TEST(begin_at_continues_in_the_middle) {
  Fixture f(disjoint({10, 20, 30}));
  f.replayer.rest();
  f.replayer.begin_at(2);
  CHECK_EQ(f.serve(30), 2000);
  f.replayer.end_iteration();
  CHECK_EQ(f.counters.skipped, 0u);
}

TEST(requests_beyond_the_plan_miss) {
  Fixture f(disjoint({10}));
  f.serve(10);
  CHECK_EQ(f.serve(10), kUnplanned);
  CHECK_EQ(f.serve(10), kUnplanned);
  CHECK_EQ(f.missed(Miss::kUnknown), 2u);
}

TEST(an_empty_plan_misses_everything) {
  Fixture f({});
  CHECK_EQ(f.serve(10), kUnplanned);
  f.replayer.end_iteration();
  CHECK_EQ(f.serve(10), kUnplanned);
}

TEST(prefixes_are_scored_by_how_well_they_fill_their_slots) {
  Fixture f({slot(10, 3, 0), varying(100, 3, 1000), slot(30, 3, 2000)});
  const std::vector<RequestKey> exact = {make_key(10, 0), make_key(100, 0)};
  const std::vector<RequestKey> smaller = {make_key(10, 0), make_key(50, 0)};
  const std::vector<RequestKey> larger = {make_key(10, 0), make_key(101, 0)};
  const std::vector<RequestKey> longer(4, make_key(10, 0));
  CHECK_EQ(f.replayer.prefix_score(exact), 2 * tuning::kFullScore);
  CHECK_EQ(f.replayer.prefix_score(smaller), tuning::kFullScore + tuning::kFullScore / 2);
  CHECK_EQ(f.replayer.prefix_score(larger), -1);
  CHECK_EQ(f.replayer.prefix_score(longer), -1);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}

// Where samples become tensors before they are a batch, sizes are each sample's own, and there may
// be more of them or fewer.
TEST(a_tensor_tells_that_small_change_is_over) {
  std::vector<PlannedRequest> rows;
  const auto add = [&](Bytes bytes, bool varying) {
    rows.push_back(slot(bytes, 9, static_cast<Offset>(100'000 * rows.size())));
    rows.back().varying = varying;
    rows.back().family = static_cast<std::uint32_t>(rows.size());
  };
  for (int sample = 0; sample < 4; ++sample) add(400, true);
  for (int tensor = 0; tensor < 4; ++tensor) add(80'000, true);
  add(30'000, true);
  Surroundings surroundings;
  Replayer replayer(ReplayPlan(rows, 1'000'000, 1), surroundings);
  const auto serve = [&](Bytes bytes) { return replayer.serve(make_key(bytes, 0)); };
  serve(300);
  serve(900);  // too large, and it says nothing of the others
  CHECK(!replayer.outgrown());
  CHECK_EQ(replayer.too_large(), kNoSlot);
  CHECK_EQ(serve(40'000), 400'000);  // two samples fewer
  CHECK_EQ(serve(41'000), 500'000);
  CHECK_EQ(serve(42'000), 600'000);
  CHECK_EQ(serve(43'000), 700'000);
}

TEST(small_change_takes_no_tensors_slot) {
  std::vector<PlannedRequest> rows;
  for (const Bytes bytes : {Bytes{400}, Bytes{80'000}, Bytes{90'000}}) {
    rows.push_back(slot(bytes, 3, static_cast<Offset>(100'000 * rows.size())));
    rows.back().varying = true;
    rows.back().family = static_cast<std::uint32_t>(rows.size());
  }
  Surroundings surroundings;
  Replayer replayer(ReplayPlan(rows, 1'000'000, 1), surroundings);
  const auto serve = [&](Bytes bytes) { return replayer.serve(make_key(bytes, 0)); };
  CHECK_EQ(serve(300), 0);
  CHECK_EQ(serve(200), kUnplanned);  // a sample more
  CHECK_EQ(serve(500), kUnplanned);
  CHECK_EQ(serve(60'000), 100'000);
  CHECK_EQ(serve(70'000), 200'000);
}

// Two in a row contradict what is known; the first of them was the one under the cursor.
TEST(a_micro_batch_of_another_length_loses_no_place) {
  std::vector<PlannedRequest> rows;
  for (int row = 0; row < 5; ++row) {
    rows.push_back(slot(80'000, 5, static_cast<Offset>(100'000 * row)));
    rows.back().varying = true;
  }
  Surroundings surroundings;
  Replayer replayer(ReplayPlan(rows, 1'000'000, 1), surroundings);
  const auto serve = [&](Bytes bytes) { return replayer.serve(make_key(bytes, 0)); };
  CHECK_EQ(serve(40'000), 0);
  CHECK_EQ(serve(40'000), 100'000);
  CHECK_EQ(serve(70'000), kUnplanned);
  CHECK_EQ(serve(70'000), 300'000);
  CHECK_EQ(serve(70'000), 400'000);
}
