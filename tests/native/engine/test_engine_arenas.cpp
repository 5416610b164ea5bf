#include <cstdint>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "engine/memory/arenas.hpp"
#include "engine_fixture.hpp"
#include "failing_new.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

// Slots of two streams in one range of offsets.
const std::vector<PlannedRequest> kApart = {slot(100, 4, 0, 0), slot(200, 4, 4000, 1),
                                            slot(300, 4, 3000, 0), slot(400, 4, 5000, 1)};

// Attach the arenas of both streams, which begin at offsets 0 and 4000.
void attach_both(Fixture& f) {
  f.engine.add_arena(kStream, 0, f.range(0, 4000));
  f.engine.add_arena(kOtherStream, 4000, f.range(1, 2000));
}

}  // namespace

TEST(a_plan_with_a_slot_outside_of_its_streams_arena_is_refused) {
  Fixture f;
  attach_both(f);
  const std::vector<std::vector<PlannedRequest>> outside = {
      {slot(100, 1, 3901, 0)},
      {slot(100, 1, 4000, 0)},
      {slot(100, 1, 0, 1)},
      {slot(100, 1, 3999, 1)},
      {slot(100, 1, 5901, 1)},
      {slot(100, 2, 0, 0), slot(50, 2, 5000, 0)},
      {two_turns(100, 2, 4000, 3950, 1)},
      {two_turns(100, 2, 4000, 5901, 1)}};
  for (const auto& rows : outside) CHECK_THROWS(f.add(rows), std::invalid_argument);
  CHECK_THROWS(f.engine.start_serving(), std::logic_error);
  CHECK_EQ(f.add(kApart), 0u);
  f.engine.start_serving();
  CHECK_EQ(f.allocate(100), Fixture::base(0));
  CHECK_EQ(f.allocate(200, kOtherStream), Fixture::base(1));
  CHECK_EQ(f.allocate(300), Fixture::base(0) + 3000);
  CHECK_EQ(f.allocate(400, kOtherStream), Fixture::base(1) + 1000);
}

TEST(an_arena_that_a_plan_has_slots_outside_of_is_refused_and_nothing_changes) {
  Fixture f;
  f.engine.add_arena(kStream, 0, f.range(0, 4000));
  f.add(kApart);
  f.engine.start_serving();
  CHECK_THROWS(f.engine.add_arena(kOtherStream, 4001, f.range(1, 2000)), std::invalid_argument);
  CHECK_THROWS(f.engine.add_arena(kOtherStream, 4000, f.range(1, 1399)), std::invalid_argument);
  CHECK_THROWS(f.engine.add_arena(kOtherStream, 3999, f.range(1, 3000)), std::invalid_argument);
  CHECK_THROWS(f.engine.add_arena(kStream, 6000, f.range(1, 4000)), std::invalid_argument);
  CHECK_EQ(f.engine.statistics().arenas, 1u);
  CHECK_EQ(f.given_back(), 0);
  CHECK_EQ(f.allocate(100), Fixture::base(0));
  CHECK_EQ(f.allocate(200, kOtherStream), 0u);
  CHECK_EQ(f.missed(Miss::kNoArena), 1u);
  f.engine.add_arena(kOtherStream, 4000, f.range(1, 1400));
  CHECK_EQ(f.allocate(300), Fixture::base(0) + 3000);
  CHECK_EQ(f.allocate(400, kOtherStream), Fixture::base(1) + 1000);
}

TEST(a_stream_without_an_arena_misses_and_the_others_go_on) {
  Fixture f;
  f.engine.add_arena(kOtherStream, 4000, f.range(1, 2000));
  f.add(kApart);
  f.engine.start_serving();
  for (int iteration = 0; iteration < 2; ++iteration) {
    CHECK_EQ(f.allocate(100), 0u);
    CHECK_EQ(f.allocate(200, kOtherStream), Fixture::base(1));
    CHECK_EQ(f.allocate(300), 0u);
    CHECK_EQ(f.allocate(400, kOtherStream), Fixture::base(1) + 1000);
    CHECK(f.release(Fixture::base(1)));
    CHECK(f.release(Fixture::base(1) + 1000));
    f.engine.end_iteration();
  }
  CHECK_EQ(f.missed(Miss::kNoArena), 4u);
  CHECK_EQ(f.engine.statistics().counters.hits, 4u);
  CHECK_EQ(f.engine.statistics().counters.skipped, 0u);  // every request was in the plan
}

TEST(a_stream_beyond_those_that_may_have_an_arena_has_none) {
  Fixture f;
  std::vector<std::uint64_t> streams;
  for (std::uint64_t stream = 1; stream <= 70; ++stream) streams.push_back(stream);
  for (std::uint32_t index = 0; index < Arenas::kMostStreams; ++index) {
    f.engine.add_arena(streams[index], 1000 * Offset{index}, f.range(0, 1000));
  }
  const std::vector<PlannedRequest> rows = {slot(10, 2, 0, 0), slot(20, 2, 500'000, 64)};
  f.engine.add_plan(rows, streams, 1'000'000, 1);
  f.engine.start_serving();
  CHECK_EQ(f.allocate(10, streams[0]), Fixture::base(0));
  CHECK_EQ(f.allocate(20, streams[64]), 0u);
  CHECK_EQ(f.missed(Miss::kNoArena), 1u);
}

TEST(each_arena_goes_back_with_its_own_last_block) {
  Fixture f;
  attach_both(f);
  f.add(kApart);
  f.engine.start_serving();
  const std::uintptr_t blocks[] = {f.allocate(100), f.allocate(200, kOtherStream), f.allocate(300),
                                   f.allocate(400, kOtherStream)};
  f.engine.end_iteration();
  f.engine.detach_arena();
  CHECK(!f.engine.has_arena());
  CHECK_EQ(f.given_back(), 0);
  CHECK_EQ(f.engine.statistics().slots.live, 1000);
  CHECK(f.release(blocks[1]));
  CHECK(f.release(blocks[0]));
  CHECK_EQ(f.given_back(), 0);
  CHECK_EQ(f.engine.statistics().slots.live, 700);
  CHECK(f.owns(blocks[2]));
  CHECK(f.release(blocks[2]));
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.returned[1], 0);
  CHECK_EQ(f.engine.statistics().arena_bytes, 2000);
  CHECK(f.release(blocks[3]));
  CHECK_EQ(f.returned[1], 1);
  CHECK(!f.release(blocks[3]));
  CHECK(!f.owns(blocks[3]));
  CHECK_EQ(f.given_back(), 2);
  CHECK_EQ(f.engine.statistics().slots.live, 0);
}

TEST(an_arena_is_added_wholly_or_not_at_all) {
  Fixture f;
  f.engine.add_arena(kStream, 0, f.range(0, 4000));
  f.add(kApart);
  f.engine.start_serving();
  int failures = 0;
  for (int after = 0;; ++after) {
    try {
      const FailingAllocation failing(after);
      f.engine.add_arena(kOtherStream, 4000, f.range(1, 2000));
      break;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    CHECK_EQ(f.engine.statistics().arenas, 1u);
    CHECK_EQ(f.given_back(), 0);
  }
  CHECK(failures > 0);
  CHECK_EQ(f.allocate(100), Fixture::base(0));
  CHECK_EQ(f.allocate(200, kOtherStream), Fixture::base(1));
}

TEST(arenas_are_let_go_of_wholly_or_not_at_all) {
  Fixture f;
  attach_both(f);
  f.add(kApart);
  f.engine.start_serving();
  const std::uintptr_t blocks[] = {f.allocate(100), f.allocate(200, kOtherStream)};
  int failures = 0;
  for (int after = 0;; ++after) {
    try {
      const FailingAllocation failing(after);
      f.engine.detach_arena();
      break;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    CHECK(f.engine.has_arena());
    CHECK_EQ(f.engine.statistics().slots.live, 300);
  }
  CHECK(failures >= 4);
  CHECK(!f.engine.has_arena());
  CHECK_EQ(f.engine.statistics().arenas, 2u);
  CHECK(f.release(blocks[0]));
  CHECK(f.release(blocks[1]));
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.returned[1], 1);
  CHECK_EQ(f.engine.statistics().slots.live, 0);
}

// --- spilled slots: slots of every stream in one arena, at offsets above all other arenas --------

TEST(a_plan_that_spills_serves_from_both_arenas) {
  Fixture f;
  f.engine.add_spill(4000, f.range(1, 2000));
  f.engine.add_arena(kStream, 0, f.range(0, 4000));
  f.add({slot(100, 3, 0, 0), slot(200, 3, 4000, 0), slot(300, 3, 3000, 0)});
  f.engine.start_serving();
  const std::uintptr_t blocks[] = {f.allocate(100), f.allocate(200), f.allocate(300)};
  CHECK_EQ(blocks[0], Fixture::base(0));
  CHECK_EQ(blocks[1], Fixture::base(1));
  CHECK_EQ(blocks[2], Fixture::base(0) + 3000);
  f.engine.detach_arena();
  CHECK(f.release(blocks[1]));
  CHECK_EQ(f.returned[1], 1);
  CHECK(f.release(blocks[0]));
  CHECK_EQ(f.returned[0], 0);
  CHECK(f.release(blocks[2]));
  CHECK_EQ(f.given_back(), 2);
}

TEST(plans_that_spill_are_refused_where_nothing_can_be_spilled) {
  Fixture f;
  f.engine.add_arena(kStream, 0, f.range(0, 4000));
  CHECK_THROWS(f.add({slot(100, 2, 0, 0), slot(200, 2, 4000, 0)}), std::invalid_argument);
  f.engine.detach_arena();
  f.engine.add_spill(4000, f.range(1, 2000));
  CHECK_THROWS(f.add({slot(100, 2, 0, 0), slot(2001, 2, 4000, 0)}), std::invalid_argument);
  CHECK_THROWS(f.add({slot(100, 2, 0, 0), slot(200, 2, 3900, 0)}), std::invalid_argument);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
