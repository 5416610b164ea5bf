#include <algorithm>
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "engine_fixture.hpp"
#include "failing_new.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

constexpr std::uint32_t kNone = Living::kNone;

// Request 1 lives into the next iteration, request 2 is born anew in each and has two slots.
const std::vector<PlannedRequest> kWrapping = {slot(100, 2, 0), slot(200, 4, 1000),
                                               two_turns(300, 6, 2000, 3000)};

// Where the tests put what the framework provides.
constexpr std::uintptr_t kForeign = 0x1000;

struct Moving : Fixture {
  std::size_t alive() { return engine.living().size(); }

  // What is said of one block; the kind is ~0 when it is not reported.
  Living find(std::uintptr_t address) {
    const std::vector<Living> all = engine.living();
    const auto same = [&](const Living& block) { return block.address == address; };
    CHECK(std::count_if(all.begin(), all.end(), same) <= 1);
    const auto found = std::find_if(all.begin(), all.end(), same);
    return found != all.end() ? *found : Living{address, -1, kNone, kNone, kNone, ~0u};
  }

  // A whole iteration of kWrapping, in which nothing is freed.
  void iterate() {
    allocate(100);
    allocate(200);
    allocate(300);
    engine.end_iteration();
  }
};

void check_living(const Living& block, Bytes bytes, std::uint32_t kind, std::uint32_t plan,
                  std::uint32_t request, std::uint32_t number, int line) {
  const auto same = [&](auto said, auto expected, const char* what) {
    check_equal(said, expected, what, __FILE__, line);
  };
  same(block.bytes, bytes, "bytes");
  same(block.kind, kind, "kind");
  same(block.plan, plan, "plan");
  same(block.request, request, "request");
  same(block.block, number, "block");
}

}  // namespace

#define CHECK_LIVING(block, bytes, kind, plan, request, number) \
  check_living(block, bytes, kind, plan, request, number, __LINE__)

TEST(nothing_is_alive_in_a_new_engine) {
  Moving f;
  CHECK_EQ(f.alive(), 0u);
  f.serve(kWrapping);
  CHECK_EQ(f.alive(), 0u);
}

TEST(slots_are_alive_with_their_plans_requests) {
  Moving f;
  f.serve(kWrapping);
  f.iterate();
  f.release(f.base(0));
  CHECK_EQ(f.alive(), 2u);
  CHECK_LIVING(f.find(f.base(0) + 1000), 200, Living::kSlot, 0u, 1u, kNone);
  CHECK_LIVING(f.find(f.base(0) + 2000), 300, Living::kSlot, 0u, 2u, kNone);
  f.release(f.base(0) + 1000);
  f.iterate();
  CHECK_LIVING(f.find(f.base(0) + 3000), 300, Living::kSlot, 0u, 2u, kNone);  // the second slot
}

TEST(slots_are_reported_at_the_addresses_of_their_streams) {
  Moving f;
  f.engine.add_arena(kStream, 0, f.range(0, 1000));
  f.engine.add_arena(kOtherStream, 1000, f.range(1, 1000));
  f.add({slot(10, 2, 500, 0), varying(20, 2, 1500, 1)});
  f.engine.start_serving();
  f.allocate(10);
  f.allocate(7, kOtherStream);
  CHECK_LIVING(f.find(f.base(0) + 500), 10, Living::kSlot, 0u, 0u, kNone);
  CHECK_LIVING(f.find(f.base(1) + 500), 7, Living::kSlot, 0u, 1u, kNone);
}

TEST(late_blocks_are_alive_without_a_request) {
  Moving f;
  f.serve(kWrapping);
  f.iterate();  // request 0 is late from its end on
  CHECK_LIVING(f.find(f.base(0)), 100, Living::kLate, kNone, kNone, kNone);
  f.attach(1);
  CHECK_LIVING(f.find(f.base(0)), 100, Living::kLate, kNone, kNone, kNone);
  CHECK_LIVING(f.find(f.base(0) + 1000), 200, Living::kLate, kNone, kNone, kNone);
  CHECK_EQ(f.alive(), 3u);
  f.release(f.base(0) + 1000);
  CHECK_EQ(f.alive(), 2u);
}

TEST(blocks_in_regions_are_alive_whether_served_or_moved_there) {
  Moving f;
  f.engine.add_opening_region(f.range(1, 1000));
  const std::uint32_t region = f.engine.add_region(f.range(2, 1000));
  f.serve({opening(300, 128)});
  f.allocate(300);
  f.engine.place_in_region(region, 64, 50);
  f.engine.close_region(region);
  CHECK_LIVING(f.find(f.base(1) + 128), 300, Living::kRegion, kNone, kNone, kNone);
  CHECK_LIVING(f.find(f.base(2) + 64), 50, Living::kRegion, kNone, kNone, kNone);
  f.release(f.base(2) + 64);
  CHECK_EQ(f.alive(), 1u);
}

TEST(what_the_framework_provided_is_alive_with_the_request_that_was_refused) {
  Moving f;
  f.attach(0);
  f.add({slot(999, 2, 0), slot(999, 2, 1000)});
  f.add({slot(100, 1, 0), varying(200, 2, 1000), persistent(50), slot(70, 4, 3000)});
  f.engine.select_plan(1);
  f.engine.start_serving();
  CHECK_EQ(f.allocate(201), 0u);  // unknown: the cursor stays
  f.adopt(kForeign, 201);
  f.allocate(100);
  CHECK_EQ(f.allocate(201), 0u);  // too large
  f.adopt(kForeign + 0x1000, 201);
  CHECK_EQ(f.allocate(50), 0u);  // persistent
  f.adopt(kForeign + 0x2000, 50);
  f.adopt(kForeign + 0x3000, 5);  // nobody asked for a slot
  CHECK_LIVING(f.find(kForeign), 201, Living::kForeign, kNone, kNone, kNone);
  CHECK_LIVING(f.find(kForeign + 0x1000), 201, Living::kForeign, 1u, 1u, kNone);
  CHECK_LIVING(f.find(kForeign + 0x2000), 50, Living::kForeign, 1u, 2u, kNone);
  CHECK_LIVING(f.find(kForeign + 0x3000), 5, Living::kForeign, kNone, kNone, kNone);
  f.engine.select_plan(0);
  CHECK_LIVING(f.find(kForeign + 0x1000), 201, Living::kForeign, 1u, 1u, kNone);
  f.release(kForeign + 0x1000);
  CHECK_EQ(f.find(kForeign + 0x1000).kind, ~0u);
}

TEST(a_refusal_is_the_next_blocks_only) {
  Moving f;
  f.serve({persistent(50)});
  f.allocate(50);
  f.engine.end_iteration();
  f.allocate(8);  // unknown: the refusal before it, which nobody took, is forgotten
  f.adopt(kForeign, 8);
  CHECK_LIVING(f.find(kForeign), 8, Living::kForeign, kNone, kNone, kNone);
}

TEST(a_refusal_by_another_engine_tells_nothing) {
  Moving one;
  Moving other;
  one.serve({persistent(50)});
  other.serve({persistent(60)});
  one.allocate(50);
  other.adopt(kForeign, 50);
  CHECK_LIVING(other.find(kForeign), 50, Living::kForeign, kNone, kNone, kNone);
}

TEST(requests_of_plans_that_are_gone_are_not_reported) {
  Moving f;
  f.serve({persistent(50)});
  f.allocate(50);
  f.adopt(kForeign, 50);
  CHECK_LIVING(f.find(kForeign), 50, Living::kForeign, 0u, 0u, kNone);
  f.engine.remove_plans();
  CHECK_LIVING(f.find(kForeign), 50, Living::kForeign, kNone, kNone, kNone);
  f.add(kTwoSlots);
  CHECK_LIVING(f.find(kForeign), 50, Living::kForeign, kNone, kNone, kNone);
}

TEST(slots_of_plans_that_are_gone_are_late) {
  Moving f;
  f.serve(kWrapping);
  f.iterate();
  f.engine.remove_plans();
  CHECK_EQ(f.alive(), 3u);
  for (const Living& block : f.engine.living()) {
    CHECK_EQ(block.kind, static_cast<std::uint32_t>(Living::kLate));
  }
}

TEST(recorded_blocks_are_alive_with_their_numbers) {
  Moving f;
  f.engine.add_opening_region(f.range(1, 1000));
  f.serve({slot(100, 2, 0), opening(300, 0), slot(70, 3, 200)});
  f.adopt(kForeign, 9);  // before the recording
  f.engine.start_recording();
  f.adopt(kForeign + 0x1000, 9);
  f.allocate(100);
  f.allocate(300);
  f.allocate(70);
  f.adopt(kForeign + 0x2000, 11);
  CHECK_LIVING(f.find(kForeign), 9, Living::kForeign, kNone, kNone, kNone);
  CHECK_LIVING(f.find(kForeign + 0x1000), 9, Living::kForeign, kNone, kNone, 0u);
  CHECK_LIVING(f.find(f.base(0)), 100, Living::kLate, kNone, kNone, 1u);
  CHECK_LIVING(f.find(f.base(1)), 300, Living::kRegion, kNone, kNone, 2u);
  CHECK_LIVING(f.find(f.base(0) + 200), 70, Living::kSlot, 0u, 2u, 3u);
  CHECK_LIVING(f.find(kForeign + 0x2000), 11, Living::kForeign, kNone, kNone, 4u);
  f.engine.stop_recording();
  CHECK_EQ(f.find(f.base(1)).block, 2u);
  CHECK_EQ(f.find(kForeign + 0x2000).block, 4u);
  f.engine.start_recording();  // another one has numbers of its own
  for (const Living& block : f.engine.living()) CHECK_EQ(block.block, kNone);
}

TEST(a_number_is_not_the_next_blocks_at_the_same_address) {
  Moving f;
  const std::uint32_t region = f.engine.add_region(f.range(1, 1000));
  f.serve({slot(100, 2, 0), slot(200, 2, 1000)});
  f.engine.start_recording();
  CHECK_EQ(f.allocate(100), f.base(0));
  f.engine.place_in_region(region, 0, 50);
  f.engine.stop_recording();
  CHECK_EQ(f.find(f.base(0)).block, 0u);
  f.release(f.base(0));
  f.allocate(200);
  f.release(f.base(0) + 1000);
  f.engine.end_iteration();
  CHECK_EQ(f.allocate(100), f.base(0));  // not recorded
  CHECK_LIVING(f.find(f.base(0)), 100, Living::kSlot, 0u, 0u, kNone);
}

TEST(a_list_of_the_living_without_memory_leaves_the_engine_unlocked) {
  Moving f;
  f.serve(kWrapping);
  f.allocate(100);
  f.adopt(kForeign, 9);
  for (int after = 0; after < 2; ++after) {
    const FailingAllocation failing(after);
    CHECK_THROWS(f.engine.living(), std::bad_alloc);
  }
  CHECK_EQ(f.alive(), 2u);
}

// --- a slot for a block that was born elsewhere -------------------------------------------------

TEST(only_blocks_that_live_on_are_settled_in_their_slots) {
  Moving f;
  f.serve(kWrapping);
  CHECK_EQ(f.engine.resettle(0, 100), 0u);  // ends with its iteration
  CHECK_EQ(f.engine.resettle(1, 200), f.base(0) + 1000);
  CHECK_EQ(f.engine.resettle(2, 300), f.base(0) + 2000);
  CHECK_EQ(f.engine.statistics().slots.live, 500);
  CHECK_EQ(f.engine.statistics().counters.requests, 0u);  // nobody has requested it
  CHECK_LIVING(f.find(f.base(0) + 1000), 200, Living::kSlot, 0u, 1u, kNone);
  CHECK(f.release(f.base(0) + 1000));
  CHECK_EQ(f.engine.statistics().slots.live, 300);
}

TEST(a_block_that_is_freed_before_the_first_request_settles_as_a_late_one) {
  Moving f;
  // Gradients, where zero_grad comes first; the next iteration's first block lies on their slot.
  f.serve({slot(100, 1, 0), slot(200, 2, 0)});
  CHECK_EQ(f.engine.resettle(1, 200), f.base(0));
  CHECK_EQ(f.engine.statistics().late_now, 1u);
  CHECK_EQ(f.allocate(100), 0u);
  CHECK(f.release(f.base(0)));
  CHECK_EQ(f.engine.statistics().late_now, 0u);
  f.engine.end_iteration();
  CHECK_EQ(f.allocate(100), f.base(0));
}

TEST(requests_that_have_no_slot_settle_nothing) {
  Moving f;
  CHECK_EQ(f.engine.resettle(0, 10), 0u);  // no plan, no arena
  f.engine.add_opening_region(f.range(1, 1000));
  f.serve({slot(10, 2, 0), persistent(20), opening(30, 0), slot(40, 7, 1000)});
  CHECK_EQ(f.engine.resettle(1, 20), 0u);
  CHECK_EQ(f.engine.resettle(2, 30), 0u);
  CHECK_EQ(f.engine.resettle(4, 40), 0u);
  CHECK_EQ(f.engine.resettle(~0u, 40), 0u);
  CHECK_EQ(f.engine.resettle(3, 41), 0u);
  CHECK_EQ(f.engine.resettle(3, 0), 0u);
  CHECK_EQ(f.engine.resettle(3, -1), 0u);
  f.engine.detach_arena();
  CHECK_EQ(f.engine.resettle(3, 40), 0u);
  CHECK_EQ(f.engine.statistics().slots.live, 0);
}

TEST(a_smaller_block_settles_in_its_slot) {
  Moving f;
  f.serve({slot(10, 2, 0), varying(400, 3, 1000)});
  CHECK_EQ(f.engine.resettle(1, 150), f.base(0) + 1000);
  CHECK_EQ(f.engine.statistics().slots.live, 150);
  f.release(f.base(0) + 1000);
  CHECK_EQ(f.engine.statistics().slots.live, 0);
}

TEST(nothing_settles_in_the_middle_of_an_iteration) {
  Moving f;
  f.serve(kWrapping);
  f.allocate(100);
  CHECK_EQ(f.engine.resettle(1, 200), 0u);
  f.allocate(200);
  f.allocate(300);
  CHECK_EQ(f.engine.resettle(2, 300), 0u);
  f.engine.end_iteration();
  f.release(f.base(0) + 1000);
  CHECK_EQ(f.engine.resettle(1, 200), f.base(0) + 1000);
}

TEST(nothing_settles_where_a_block_lives) {
  Moving f;
  f.serve(kWrapping);
  f.iterate();
  CHECK_EQ(f.engine.resettle(1, 200), 0u);
  CHECK_EQ(f.engine.resettle(2, 300), f.base(0) + 3000);  // the second slot is free
  CHECK_EQ(f.engine.resettle(2, 300), 0u);
  f.release(f.base(0) + 2000);
  CHECK_EQ(f.engine.resettle(2, 300), f.base(0) + 2000);
}

TEST(nothing_settles_over_a_late_block) {
  Moving f;
  // Request 0 has ended when request 1 begins, which lies partly on the same bytes.
  f.serve({slot(100, 1, 0), slot(200, 3, 50)});
  f.allocate(100);
  f.engine.end_iteration();
  CHECK_EQ(f.engine.statistics().late_now, 1u);
  CHECK_EQ(f.engine.resettle(1, 200), 0u);
  f.release(f.base(0));
  CHECK_EQ(f.engine.resettle(1, 200), f.base(0) + 50);
}

TEST(nothing_settles_over_a_late_block_of_another_plan) {
  Moving f;
  f.attach(0);
  f.add({slot(101, 2, 1100), slot(50, 3, 2299)});
  f.add(kWrapping);
  f.engine.start_serving();
  f.allocate(101);
  f.allocate(50);
  f.engine.end_iteration();
  f.engine.select_plan(1);
  CHECK_EQ(f.engine.resettle(1, 200), 0u);
  CHECK_EQ(f.engine.resettle(2, 300), f.base(0) + 3000);
  f.release(f.base(0) + 1100);
  CHECK_EQ(f.engine.resettle(1, 200), f.base(0) + 1000);
}

TEST(nothing_settles_on_a_stream_without_an_arena) {
  Moving f;
  f.engine.add_arena(kStream, 0, f.range(0, 1000));
  f.add({slot(10, 2, 0, 0), slot(20, 3, 1000, 1)});
  CHECK_EQ(f.engine.resettle(1, 20), 0u);
  f.engine.add_arena(kOtherStream, 1000, f.range(1, 1000));
  CHECK_EQ(f.engine.resettle(1, 20), f.base(1));
}

TEST(a_settled_block_keeps_its_slot_until_its_planned_end_and_is_late_then) {
  Moving f;
  f.serve({slot(100, 1, 0), slot(50, 2, 1100), slot(200, 4, 1000)});
  CHECK_EQ(f.engine.resettle(2, 200), f.base(0) + 1000);
  f.release(f.allocate(100));
  CHECK_EQ(f.engine.statistics().late_now, 0u);
  CHECK_EQ(f.allocate(50), 0u);  // over the settled block, which should have died by now
  CHECK_EQ(f.missed(Miss::kLate), 1u);
  CHECK_EQ(f.engine.statistics().late_now, 1u);
  CHECK_EQ(f.allocate(200), 0u);
  CHECK_EQ(f.missed(Miss::kOccupied), 1u);
  CHECK(f.release(f.base(0) + 1000));
  CHECK_EQ(f.engine.statistics().late_now, 0u);
  CHECK_EQ(f.engine.statistics().slots.live, 0);
}

TEST(the_next_of_a_settled_block_takes_the_other_slot) {
  Moving f;
  f.serve({two_turns(300, 2, 2000, 3000)});
  CHECK_EQ(f.engine.resettle(0, 300), f.base(0) + 2000);
  CHECK_EQ(f.allocate(300), f.base(0) + 3000);
  f.release(f.base(0) + 2000);
  f.engine.end_iteration();
  CHECK_EQ(f.allocate(300), f.base(0) + 2000);
}

TEST(settling_needs_no_memory) {
  Moving f;
  f.serve(kWrapping);
  const FailingAllocation failing(0);
  CHECK_EQ(f.engine.resettle(1, 200), f.base(0) + 1000);
  CHECK(!failing.happened());
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
