#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "engine/replay/replay_plan.hpp"
#include "rows.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

constexpr Bytes kHuge = std::numeric_limits<Bytes>::max();

ReplayPlan plan_of(std::vector<PlannedRequest> rows, Bytes arena = 1000, Bytes alignment = 1) {
  return ReplayPlan(rows, arena, alignment);
}

}  // namespace

TEST(a_key_holds_bytes_and_stream) {
  const RequestKey key = make_key(kLargestRequest, 77);
  CHECK_EQ(key_bytes(key), kLargestRequest);
  CHECK_EQ(key_stream(key), 77u);
}

TEST(slots_that_reach_beyond_the_arena_are_refused) {
  CHECK_THROWS(plan_of({slot(100, 1, 901)}), std::invalid_argument);
  CHECK_THROWS(plan_of({slot(1001, 1, 0)}), std::invalid_argument);
  CHECK_THROWS(plan_of({slot(100, 1, -2)}), std::invalid_argument);
  CHECK_THROWS(plan_of({slot(100, 1, kHuge)}), std::invalid_argument);
  CHECK_THROWS(plan_of({two_turns(100, 2, 0, 901)}), std::invalid_argument);
  CHECK_THROWS(plan_of({slot(100, 1, 0)}, -5), std::invalid_argument);
  CHECK_EQ(plan_of({slot(100, 1, 900)}).requests(), 1u);
}

TEST(unaligned_offsets_and_bad_alignments_are_refused) {
  CHECK_THROWS(plan_of({slot(10, 1, 32)}, 1000, 64), std::invalid_argument);
  CHECK_THROWS(plan_of({slot(10, 1, 0)}, 1000, 0), std::invalid_argument);
  CHECK_THROWS(plan_of({slot(10, 1, 0)}, 1000, -64), std::invalid_argument);
}

TEST(sizes_out_of_range_are_refused) {
  CHECK_THROWS(plan_of({slot(0, 1, 0)}), std::invalid_argument);
  CHECK_THROWS(plan_of({slot(-1, 1, 0)}), std::invalid_argument);
  CHECK_THROWS(plan_of({slot(kLargestRequest + 1, 1, 0)}, kHuge), std::invalid_argument);
}

TEST(lifetimes_out_of_range_are_refused) {
  CHECK_THROWS(plan_of({slot(1, 0, 0)}), std::invalid_argument);
  CHECK_THROWS(plan_of({slot(1, 2, 0)}), std::invalid_argument);          // needs two slots
  CHECK_THROWS(plan_of({two_turns(1, 1, 0, 1)}), std::invalid_argument);  // needs only one slot
  CHECK_THROWS(plan_of({two_turns(1, 3, 0, 1)}), std::invalid_argument);  // needs three slots
  CHECK_THROWS(plan_of({slot(1, kHuge, 0)}), std::invalid_argument);
  PlannedRequest second_only = persistent(5);
  second_only.alternate = 0;
  CHECK_THROWS(plan_of({second_only}), std::invalid_argument);
}

TEST(the_stream_index_that_would_make_the_sentinel_is_refused) {
  CHECK_THROWS(plan_of({slot(1, 1, 0, 0xffff)}), std::invalid_argument);
  CHECK_EQ(plan_of({slot(1, 1, 0, 0xfffe)}).requests(), 1u);
}

TEST(ends_come_in_the_order_of_ticks_and_wrap) {
  const ReplayPlan plan =
      plan_of({slot(1, 3, 0), slot(1, 2, 1), slot(1, 4, 2), persistent(9), slot(1, 5, 3)});
  const ReplayPlan::End* end = plan.ends();
  const std::vector<std::pair<std::uint32_t, SlotIndex>> expected = {
      {0, 4}, {2, 1}, {3, 0}, {4, 2}};
  for (const auto& [tick, index] : expected) {
    CHECK_EQ(end->tick, tick);
    CHECK_EQ(end->slot, index);
    ++end;
  }
  CHECK_EQ(end->slot, kNoSlot);  // never reached
  CHECK(end->tick >= 1u << 31);
}

TEST(slots_at_one_offset_share_their_place) {
  ReplayPlan plan = plan_of({slot(8, 1, 64), slot(9, 2, 64), slot(9, 3, 128)});
  CHECK(&plan.place_of(plan.slot(0)) == &plan.place_of(plan.slot(1)));
  CHECK(&plan.place_of(plan.slot(0)) != &plan.place_of(plan.slot(2)));
  CHECK_EQ(plan.place_at(64).offset, 64);
  CHECK_EQ(plan.place_at(65).living, kNoSlot);
}

TEST(finds_places_among_many) {
  std::vector<PlannedRequest> rows;
  constexpr Tick kRows = 5000;
  for (Tick row = 0; row < kRows; ++row) rows.push_back(slot(3, row + 1, 3 * row));
  ReplayPlan plan = plan_of(rows, 3 * kRows);
  for (SlotIndex row = 0; row < kRows; ++row) {
    CHECK(&plan.place_at(3 * Offset{row}) == &plan.place_of(plan.slot(row)));
  }
}

TEST(anchors_are_pairs_of_fixed_sizes_that_come_once) {
  const ReplayPlan plan = plan_of({slot(5, 1, 0), slot(7, 2, 10), slot(5, 3, 20), slot(7, 4, 30),
                                   slot(6, 5, 40), varying(9, 6, 50), slot(8, 7, 60)});
  const auto anchor = [&](Bytes first, Bytes second) {
    return plan.anchor(make_key(first, 0), make_key(second, 0));
  };
  CHECK_EQ(anchor(7, 6), 4u);
  CHECK_EQ(anchor(7, 5), 2u);
  CHECK_EQ(anchor(5, 7), kNoSlot);  // the pair occurs twice
  CHECK_EQ(anchor(6, 9), kNoSlot);
  CHECK_EQ(anchor(9, 8), kNoSlot);
  CHECK_EQ(anchor(6, 5), kNoSlot);
}

TEST(the_next_request_that_is_as_large_is_known) {
  const ReplayPlan plan =
      plan_of({slot(5, 1, 0), slot(3, 2, 10), slot(4, 3, 20), slot(4, 4, 30), slot(5, 5, 40)});
  CHECK_EQ(plan.next_as_large(0), 4u);
  CHECK_EQ(plan.next_as_large(1), 2u);
  CHECK_EQ(plan.next_as_large(2), 3u);
  CHECK_EQ(plan.next_as_large(3), 4u);
  CHECK_EQ(plan.next_as_large(4), 5u);
}

TEST(requests_of_one_family_and_size_are_of_one_class) {
  std::vector<PlannedRequest> rows = {varying(9, 1, 0),  varying(9, 2, 10), slot(9, 3, 20),
                                      varying(9, 4, 30), varying(5, 5, 40), varying(9, 6, 50, 1)};
  rows[3].family = 7;
  const ReplayPlan plan = plan_of(rows);
  CHECK_EQ(plan.size_classes(), 4u);
  CHECK_EQ(plan.size_class(0), plan.size_class(1));
  CHECK(!plan.varying(2));
  for (const SlotIndex other : {3u, 4u, 5u}) CHECK(plan.size_class(other) != plan.size_class(0));
}

TEST(an_empty_plan_is_a_plan) {
  CHECK_EQ(plan_of({}).requests(), 0u);
  CHECK_EQ(plan_of({}).ends()->slot, kNoSlot);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
