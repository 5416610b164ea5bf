#include <cstdint>
#include <vector>

#include "check.hpp"
#include "engine_fixture.hpp"
#include "failing_new.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

// The first varying request is the second one; request 3 lives into the next iteration.
const std::vector<PlannedRequest> kVarying = {slot(10, 4, 0), varying(100, 4, 1000),
                                              varying(200, 4, 2000), slot(40, 5, 3000)};

struct Yielding : Fixture {
  Yielding() {
    serve(kVarying);
    engine.yield_when_outgrown(true);
  }
};

}  // namespace

TEST(an_outgrown_iteration_gives_its_arena_back_and_goes_on) {
  Yielding f;
  f.release(f.allocate(10));
  CHECK_EQ(f.allocate(101), 0u);
  CHECK_EQ(f.returned[0], 1);
  CHECK(!f.engine.has_arena());
  CHECK_EQ(f.engine.statistics().arenas, 0u);
  CHECK_EQ(*f.engine.mode(), static_cast<std::uint32_t>(PGMO_SERVING));
  CHECK_EQ(f.allocate(201), 0u);  // too large as well
  CHECK_EQ(f.allocate(40), 0u);   // would have fitted
  CHECK_EQ(f.missed(Miss::kTooLarge), 2u);
  CHECK_EQ(f.missed(Miss::kNoArena), 1u);
  const std::vector<Grown> grown = f.engine.take_grown();
  CHECK_EQ(grown.size(), 2u);
  CHECK_EQ(grown.at(0).request, 1u);
  CHECK_EQ(grown.at(0).bytes, 101);
  CHECK_EQ(grown.at(1).request, 2u);
  CHECK_EQ(grown.at(1).bytes, 201);
  f.engine.end_iteration();
  CHECK_EQ(f.allocate(10), 0u);
  CHECK_EQ(f.missed(Miss::kNoArena), 2u);
  CHECK_EQ(f.returned[0], 1);
}

TEST(what_lives_in_a_yielded_arena_keeps_it) {
  Yielding f;
  f.allocate(10);
  f.allocate(100);
  f.allocate(200);
  f.allocate(40);
  f.release(f.base(0));
  f.release(f.base(0) + 1000);
  f.engine.end_iteration();  // request 2 is late, request 3 lives on
  CHECK_EQ(f.allocate(10), f.base(0));
  CHECK_EQ(f.allocate(101), 0u);
  CHECK(!f.engine.has_arena());
  CHECK_EQ(f.returned[0], 0);
  CHECK_EQ(f.engine.statistics().slots.live, 250);
  CHECK_EQ(f.engine.living().size(), 3u);
  for (const std::uintptr_t offset : {0u, 2000u, 3000u}) {
    CHECK_EQ(f.returned[0], 0);
    CHECK(f.owns(f.base(0) + offset));
    CHECK(f.release(f.base(0) + offset));
  }
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.engine.statistics().slots.live, 0);
  CHECK(!f.release(f.base(0)));
}

TEST(a_new_arena_serves_after_a_yield) {
  Yielding f;
  f.allocate(10);
  f.allocate(101);
  f.engine.end_iteration();
  f.attach(1);
  CHECK_EQ(f.allocate(10), f.base(1));
  CHECK_EQ(f.allocate(100), f.base(1) + 1000);
  CHECK_EQ(f.returned[0], 0);
  f.release(f.base(0));
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.returned[1], 0);
}

TEST(arenas_of_all_streams_are_yielded_together) {
  Fixture f;
  f.engine.add_arena(kStream, 0, f.range(0, 1000));
  f.engine.add_arena(kOtherStream, 1000, f.range(1, 1000));
  f.add({slot(10, 2, 1000, 1), varying(100, 2, 0, 0)});
  f.engine.start_serving();
  f.engine.yield_when_outgrown(true);
  CHECK_EQ(f.allocate(10, kOtherStream), f.base(1));
  CHECK_EQ(f.allocate(101), 0u);
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.returned[1], 0);
  f.release(f.base(1));
  CHECK_EQ(f.returned[1], 1);
}

TEST(only_a_first_varying_request_that_is_too_large_yields) {
  Yielding f;
  f.allocate(10);
  CHECK_EQ(f.allocate(60), f.base(0) + 1000);
  CHECK_EQ(f.allocate(201), 0u);  // the second varying one
  CHECK_EQ(f.missed(Miss::kTooLarge), 1u);
  CHECK_EQ(f.allocate(7777), 0u);  // unknown
  CHECK(f.engine.has_arena());
  CHECK_EQ(f.allocate(40), f.base(0) + 3000);
  CHECK_EQ(f.given_back(), 0);
}

TEST(an_outgrown_iteration_keeps_its_arena_unless_told_otherwise) {
  Fixture f;
  f.serve(kVarying);
  for (const bool yields : {false, true}) {
    if (yields) f.engine.yield_when_outgrown(true);
    f.engine.yield_when_outgrown(false);
    f.allocate(10);
    CHECK_EQ(f.allocate(101), 0u);
    CHECK_EQ(f.allocate(150), f.base(0) + 2000);
    f.release(f.base(0));
    f.release(f.base(0) + 2000);
    f.engine.end_iteration();
  }
  CHECK(f.engine.has_arena());
  CHECK_EQ(f.missed(Miss::kTooLarge), 2u);
}

TEST(long_lived_blocks_stay_when_arenas_are_yielded) {
  Fixture f;
  f.engine.add_opening_region(f.range(1, 1000));
  f.serve({varying(100, 2, 0), opening(30, 0)});
  f.engine.yield_when_outgrown(true);
  CHECK_EQ(f.allocate(101), 0u);
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.allocate(30), f.base(1));
  CHECK_EQ(f.engine.statistics().regions.live, 30);
}

TEST(an_arena_that_cannot_be_yielded_for_want_of_memory_serves_on) {
  Yielding f;
  int failures = 0;
  // One more allocation succeeds each time, until the arena goes.
  for (int after = 0; f.engine.has_arena() && after < 20; ++after) {
    f.engine.end_iteration();
    const std::uintptr_t first = f.allocate(10);
    if (failures == 0) {
      CHECK_EQ(first, f.base(0));
    } else {
      CHECK_EQ(first, 0u);  // it still lives, from the first time
    }
    f.engine.take_grown();
    {
      const FailingAllocation failing(after);
      CHECK_EQ(f.allocate(101), 0u);
      failures += failing.happened();
    }
    CHECK_EQ(f.engine.statistics().slots.live, 10);
    CHECK_EQ(f.given_back(), 0);
    CHECK(f.owns(f.base(0)));
  }
  CHECK(failures >= 4);
  CHECK(f.release(f.base(0)));
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.engine.statistics().slots.live, 0);
  CHECK_EQ(f.engine.statistics().late_now, 0u);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}

TEST(an_idle_arena_goes_back_when_memory_is_wanted) {
  Yielding f;
  const std::uintptr_t block = f.allocate(10);
  CHECK(!f.engine.yield_idle());  // something lives in it
  CHECK(f.engine.has_arena());
  f.release(block);
  f.engine.pause();
  CHECK(f.engine.yield_idle());
  CHECK_EQ(f.returned[0], 1);
  CHECK(!f.engine.has_arena());
  CHECK(!f.engine.yield_idle());
  f.engine.resume();
  CHECK_EQ(f.allocate(10), 0u);
  CHECK_EQ(f.missed(Miss::kNoArena), 1u);
}

TEST(an_arena_with_a_late_block_is_not_idle) {
  Yielding f;
  const std::uintptr_t block = f.allocate(10);
  f.engine.end_iteration();
  CHECK(!f.engine.yield_idle());
  f.release(block);
  CHECK(f.engine.yield_idle());
}
