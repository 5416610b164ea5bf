// Tests of varying requests: their slots, and the sizes that one request implies for others.

#include <vector>

#include "check.hpp"
#include "replayer_fixture.hpp"
#include "rows.hpp"

using namespace pgmo;
using namespace pgmo::test;

TEST(a_number_is_no_tensor_at_another_size) {
  ReplayerFixture f({varying(100'000, 2, 0), slot(30'000, 2, 200'000)});
  const Bytes least = 100'000 / (kDefaults.length_ratio * kDefaults.length_ratio);
  CHECK_EQ(f.serve(least - 1), kUnplanned);
  CHECK_EQ(f.serve(least), 0);
  CHECK_EQ(f.serve(30'000), 200'000);
}

TEST(a_varying_slot_serves_smaller_requests) {
  ReplayerFixture f({varying(100, 1, 0), slot(30, 2, 1000)});
  CHECK_EQ(f.serve(60), 0);
  CHECK_EQ(f.replayer.release(0), 60);
  CHECK_EQ(f.serve(30), 1000);
}

TEST(a_larger_request_than_its_varying_slot_misses_and_is_noted) {
  ReplayerFixture f({varying(100, 1, 0), slot(30, 2, 1000)});
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
  ReplayerFixture f({varying(100, 1, 0), slot(30, 2, 1000)});
  CHECK_EQ(f.serve(500, 1), kUnplanned);
  CHECK_EQ(f.missed(Miss::kUnknown), 1u);
  CHECK(f.replayer.take_grown().empty());
  CHECK_EQ(f.serve(80), 0);  // the cursor stayed
}

TEST(a_varying_request_that_was_left_out_is_passed_over_by_a_larger_one) {
  ReplayerFixture f({varying(100, 2, 0), slot(300, 2, 1000)});
  CHECK_EQ(f.serve(300), 1000);
}

TEST(numbers_that_are_left_out_do_not_hide_the_first_batch) {
  ReplayerFixture f({slot(4, 2, 0), slot(8, 2, 64), varying(900, 3, 1000), varying(300, 4, 2000)});
  CHECK_EQ(f.serve(700), 1000);
  CHECK_EQ(f.serve(200), 2000);
}

TEST(a_number_takes_no_slot_of_a_batch_behind_others) {
  ReplayerFixture f({slot(4, 2, 0), slot(8, 2, 64), varying(9000, 3, 10'000)});
  CHECK_EQ(f.serve(100), kUnplanned);
  CHECK_EQ(f.serve(7000), 10'000);
}

TEST(a_batch_is_not_looked_for_behind_what_is_as_large) {
  ReplayerFixture f({slot(4, 2, 0), slot(800, 2, 64), varying(900, 3, 1000)});
  CHECK_EQ(f.serve(700), kUnplanned);
  CHECK_EQ(f.missed(Miss::kUnknown), 1u);
}

// Return three layers of two varying requests each, with a number in between.
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
  ReplayerFixture f(layers());
  f.serve(50);
  f.serve(8);
  CHECK_EQ(f.serve(120), 2000);  // its ratio differs from the first request's
  CHECK_EQ(f.serve(120), 5000);  // the iteration has left out two requests
  CHECK_EQ(f.serve(50), 6000);
}

TEST(a_request_that_no_plan_knows_moves_nothing) {
  ReplayerFixture f(layers());
  f.serve(50);
  f.serve(8);
  f.serve(200);
  CHECK_EQ(f.serve(77), kUnplanned);  // the size class is known to have 50 bytes
  CHECK_EQ(f.missed(Miss::kUnknown), 1u);
  CHECK_EQ(f.serve(50), 3000);
}

TEST(a_micro_batch_of_another_length_changes_all_sizes) {
  ReplayerFixture f(layers());
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

TEST(families_of_one_planned_size_stay_apart) {
  std::vector<PlannedRequest> rows = {varying(100, 4, 0), varying(100, 4, 1000),
                                      varying(100, 4, 2000), varying(100, 4, 3000)};
  rows[1].family = rows[3].family = 1;
  ReplayerFixture f(rows);
  CHECK_EQ(f.serve(60), 0);
  CHECK_EQ(f.serve(70), 1000);
  CHECK_EQ(f.serve(70), 3000);  // the iteration has left out the third request
}

// Two requests in a row contradict the known sizes; the first of them is under the cursor.
TEST(a_micro_batch_of_another_length_loses_no_place) {
  std::vector<PlannedRequest> rows;
  for (int row = 0; row < 5; ++row) rows.push_back(varying(800, 5, 1000 * row));
  ReplayerFixture f(rows);
  CHECK_EQ(f.serve(600), 0);
  CHECK_EQ(f.serve(600), 1000);
  CHECK_EQ(f.serve(700), kUnplanned);
  CHECK_EQ(f.serve(700), 3000);
  CHECK_EQ(f.serve(700), 4000);
}

TEST(sizes_that_grow_with_the_square_have_slots_at_a_tenth_of_the_length) {
  ReplayerFixture f({varying(200'000, 3, 0), varying(400'000, 3, 200'000), slot(30, 3, 600'000)});
  CHECK_EQ(f.serve(2'000), 0);
  CHECK_EQ(f.serve(40'000), 200'000);
  CHECK_EQ(f.serve(30), 600'000);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
