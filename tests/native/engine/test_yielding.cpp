#include <cstdint>
#include <vector>

#include "check.hpp"
#include "engine_fixture.hpp"
#include "failing_new.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

const std::vector<PlannedRequest> kVarying = {slot(10, 4, 0), varying(100, 4, 1000),
                                              varying(200, 4, 2000), slot(40, 5, 3000)};

struct Yielding : Fixture {
  Yielding() { serve(kVarying); }
};

}  // namespace

TEST(an_idle_arena_goes_back_when_memory_is_wanted) {
  Yielding f;
  const std::uintptr_t block = f.allocate(10);
  CHECK(!f.engine.yield_idle());  // a block lives in the arena
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

TEST(arenas_of_all_streams_are_yielded_together) {
  Fixture f;
  f.engine.add_arena(kStream, 0, f.range(0, 1000));
  f.engine.add_arena(kOtherStream, 1000, f.range(1, 1000));
  f.add({slot(10, 2, 1000, 1), varying(100, 2, 0, 0)});
  f.engine.start_serving();
  const std::uintptr_t block = f.allocate(10, kOtherStream);
  CHECK_EQ(block, f.base(1));
  CHECK(!f.engine.yield_idle());
  f.release(block);
  CHECK(f.engine.yield_idle());
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.returned[1], 1);
}

TEST(a_new_arena_serves_after_a_yield) {
  Yielding f;
  CHECK(f.engine.yield_idle());
  f.replace(1);
  CHECK_EQ(f.allocate(10), f.base(1));
  CHECK_EQ(f.allocate(100), f.base(1) + 1000);
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.returned[1], 0);
}

TEST(an_arena_that_cannot_be_yielded_for_want_of_memory_serves_on) {
  Yielding f;
  int failures = 0;
  // In each turn, one more allocation succeeds, until the arena is given back.
  for (int after = 0; f.engine.has_arena() && after < 20; ++after) {
    {
      const FailingAllocation failing(after);
      const bool yielded = f.engine.yield_idle();
      CHECK_EQ(yielded, !failing.happened());
      failures += failing.happened();
    }
    CHECK_EQ(f.engine.has_arena(), f.returned[0] == 0);
  }
  CHECK(failures >= 2);
  CHECK_EQ(f.returned[0], 1);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
