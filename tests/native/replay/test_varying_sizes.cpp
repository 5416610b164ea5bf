// Requests whose sizes vary: which slot is theirs, and what one tells of the others.

#include <vector>

#include "check.hpp"
#include "replayer_fixture.hpp"
#include "rows.hpp"

using namespace pgmo;
using namespace pgmo::test;

TEST(a_number_is_no_tensor_at_another_size) {
  ReplayerFixture f({varying(100'000, 2, 0), slot(30'000, 2, 200'000)});
  CHECK_EQ(f.serve(8), kUnplanned);
  CHECK_EQ(f.serve(50'000), 0);
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

TEST(a_varying_request_that_was_left_out_gives_way_to_the_fixed_one_behind) {
  ReplayerFixture f({varying(100, 2, 0), slot(30, 2, 1000)});
  CHECK_EQ(f.serve(30), 1000);
}

TEST(an_unknown_size_finds_the_next_varying_slot) {
  ReplayerFixture f({slot(10, 2, 0), varying(100, 2, 1000)});
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
  ReplayerFixture f(layers());
  f.serve(50);
  f.serve(8);
  CHECK_EQ(f.serve(120), 2000);  // not by half, as the other one
  CHECK_EQ(f.serve(120), 5000);  // so the first one of this layer was left out, and the number
  CHECK_EQ(f.serve(50), 6000);
}

TEST(sizes_change_by_few_ratios) {
  std::vector<PlannedRequest> rows = layers(10);
  rows.insert(rows.begin() + 2, varying(300, 9, 20'000));  // not in each iteration
  ReplayerFixture f(rows);
  f.serve(25);
  f.serve(8);
  CHECK_EQ(f.serve(100), 2000);  // a quarter of 400, and no third of 300
}

TEST(what_grows_with_the_square_of_the_length_is_known_by_its_ratio) {
  ReplayerFixture f({varying(72'000, 4, 0), varying(144'000, 4, 100'000),
                     varying(72'000, 4, 300'000), slot(8, 4, 400'000)});
  CHECK_EQ(f.serve(6'000), 0);        // a twelfth
  CHECK_EQ(f.serve(1'000), 100'000);  // and its square, though so little may be anything
  CHECK_EQ(f.serve(6'000), 300'000);
}

TEST(a_request_that_no_plan_knows_moves_nothing) {
  ReplayerFixture f(layers());
  f.serve(50);
  f.serve(8);
  f.serve(200);
  CHECK_EQ(f.serve(77), kUnplanned);  // today these are of 50
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

TEST(families_of_one_planned_size_are_told_apart) {
  std::vector<PlannedRequest> rows = {varying(100, 4, 0), varying(100, 4, 1000),
                                      varying(100, 4, 2000), varying(100, 4, 3000)};
  rows[1].family = rows[3].family = 1;
  ReplayerFixture f(rows);
  CHECK_EQ(f.serve(60), 0);
  CHECK_EQ(f.serve(70), 1000);
  CHECK_EQ(f.serve(70), 3000);  // the third was left out
}

TEST(an_iteration_that_outgrows_its_plan_says_so) {
  ReplayerFixture f(layers());
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
  ReplayerFixture f(rows);
  CHECK_EQ(f.serve(70), kUnplanned);
  CHECK_EQ(f.serve(10), 0);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
