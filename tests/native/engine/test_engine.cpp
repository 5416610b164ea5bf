#include <cstdint>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "engine_fixture.hpp"
#include "failing_new.hpp"

using namespace pgmo;
using namespace pgmo::test;

TEST(the_table_of_functions_reaches_the_engine) {
  const pgmo_engine_api& api = *engine_api();
  CHECK_EQ(api.version, static_cast<std::uint32_t>(PGMO_ENGINE_API_VERSION));
  CHECK_EQ(api.size, sizeof(pgmo_engine_api));
  Fixture f;
  f.serve(kTwoSlots);
  auto* handle = reinterpret_cast<pgmo_engine*>(&f.engine);
  CHECK_EQ(*api.mode(handle), static_cast<std::uint32_t>(PGMO_SERVING));
  void* const served = api.allocate(handle, 100, kStream);
  CHECK_EQ(reinterpret_cast<std::uintptr_t>(served), Fixture::base(0));
  int elsewhere = 0;
  CHECK(api.adopt(handle, &elsewhere, 30, kStream, 0) != 0);
  pgmo_engine_statistics statistics;
  api.statistics(handle, &statistics);
  CHECK_EQ(statistics.live_slot_bytes, 100u);
  CHECK_EQ(statistics.live_fallback_bytes, 30u);
  CHECK_EQ(statistics.arena_bytes, 10'000u);
  CHECK_EQ(api.release(handle, served), static_cast<int>(PGMO_SLOT));
  CHECK_EQ(api.release(handle, &elsewhere), static_cast<int>(PGMO_FOREIGN));
  api.statistics(handle, &statistics);
  CHECK_EQ(statistics.live_slot_bytes, 0u);
  CHECK_EQ(statistics.live_fallback_bytes, 0u);
}

TEST(a_new_engine_is_in_bypass) {
  Fixture f;
  CHECK_EQ(*f.engine.mode(), 0u);
  CHECK_EQ(f.allocate(100), 0u);
  CHECK(!f.adopt(4096, 100));
  CHECK(!f.release(4096));
  f.engine.end_iteration();
  CHECK_EQ(f.engine.statistics().counters.requests, 0u);
}

TEST(zero_bytes_and_absurd_sizes_are_not_counted) {
  Fixture f;
  f.serve(kTwoSlots);
  CHECK_EQ(f.allocate(0), 0u);
  CHECK_EQ(f.allocate(~std::size_t{0}), 0u);
  CHECK(!f.adopt(4096, 0));
  CHECK_EQ(f.engine.statistics().counters.requests, 0u);
}

TEST(a_request_on_a_stream_that_no_plan_knows_is_an_unknown_one) {
  Fixture f;
  f.serve(kTwoSlots);
  CHECK_EQ(f.allocate(100, kStream + 1), 0u);
  CHECK_EQ(f.missed(Miss::kUnknown), 1u);
  CHECK_EQ(f.engine.statistics().counters.requests, 1u);
  CHECK_EQ(f.allocate(100), Fixture::base(0));
}

TEST(serving_needs_a_plan_and_an_arena) {
  Fixture f;
  CHECK_THROWS(f.engine.start_serving(), std::logic_error);
  f.attach(0);
  CHECK_THROWS(f.engine.start_serving(), std::logic_error);
  f.add(kTwoSlots);
  f.engine.detach_arena();
  CHECK_THROWS(f.engine.start_serving(), std::logic_error);
}

TEST(a_plan_larger_than_the_arena_is_refused) {
  Fixture f;
  f.attach(0, 1'199);
  CHECK_THROWS(f.add(kTwoSlots), std::invalid_argument);
  CHECK_THROWS(f.add(kTwoSlots, -1), std::invalid_argument);
  f.engine.detach_arena();
  f.attach(1, 1'200);
  CHECK_EQ(f.add(kTwoSlots), 0u);
}

TEST(an_arena_that_is_no_range_of_memory_is_refused) {
  Fixture f;
  CHECK_THROWS(f.engine.add_arena(kStream, 0, {}), std::invalid_argument);
  CHECK_THROWS(f.attach(0, 0), std::invalid_argument);
  CHECK_THROWS(f.attach(0, ~std::size_t{0}), std::invalid_argument);
}

TEST(malformed_plans_are_refused_and_leave_nothing_behind) {
  Fixture f;
  f.attach(0);
  CHECK_THROWS(f.add({slot(100, 1, 9'950)}), std::invalid_argument);
  CHECK_THROWS(f.add({slot(100, 1, 0, 2)}), std::invalid_argument);  // stream 2 of two streams
  CHECK_EQ(f.add(kTwoSlots), 0u);
  CHECK_THROWS(f.engine.select_plan(1), std::invalid_argument);
}

TEST(a_plan_is_added_wholly_or_not_at_all) {
  Fixture f;
  f.attach(0);
  int failures = 0;
  for (int after = 0;; ++after) {
    try {
      const FailingAllocation failing(after);
      f.add(kTwoSlots);
      break;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
  }
  CHECK(failures > 5);
  CHECK_EQ(f.add(kTwoSlots), 1u);  // only the successful call has added a plan
  f.engine.start_serving();
  for (int iteration = 0; iteration < 3; ++iteration) f.engine.end_iteration();
  CHECK_EQ(f.allocate(100), Fixture::base(0));
}

TEST(a_replaced_arena_goes_back_once_when_its_last_block_has_died) {
  Fixture f;
  f.serve(kTwoSlots);
  const std::uintptr_t first = f.allocate(100);
  const std::uintptr_t second = f.allocate(200);
  f.replace(1);
  CHECK_EQ(f.engine.statistics().arenas, 2u);
  CHECK_EQ(f.engine.statistics().arena_bytes, 20'000);
  CHECK_EQ(f.allocate(100), Fixture::base(1));
  CHECK(f.release(first));
  CHECK_EQ(f.given_back(), 0);
  CHECK(f.release(second));
  CHECK_EQ(f.given_back(), 1);
  CHECK_EQ(f.engine.statistics().arenas, 1u);
  CHECK_EQ(f.engine.statistics().slots.live, 100);
  CHECK(f.release(Fixture::base(1)));
  f.engine.detach_arena();
  CHECK_EQ(f.given_back(), 2);
  f.engine.detach_arena();
  CHECK_EQ(f.given_back(), 2);
}

TEST(a_late_block_keeps_its_arena) {
  Fixture f;
  f.serve({slot(100, 1, 0), slot(200, 2, 1000)});
  const std::uintptr_t block = f.allocate(100);
  f.allocate(200);
  CHECK_EQ(f.engine.statistics().late_now, 1u);
  CHECK(f.release(Fixture::base(0) + 1000));
  f.engine.detach_arena();
  CHECK_EQ(f.given_back(), 0);
  CHECK_EQ(f.engine.statistics().late_now, 0u);  // there is no current arena
  CHECK(f.release(block));
  CHECK_EQ(f.given_back(), 1);
  CHECK(!f.release(block));
}

TEST(blocks_outlive_their_plans) {
  Fixture f;
  f.serve(kTwoSlots);
  const std::uintptr_t block = f.allocate(100);
  f.engine.remove_plans();
  CHECK_EQ(*f.engine.mode(), 0u);
  CHECK_EQ(f.allocate(200), 0u);
  f.add({slot(50, 1, 80)});
  f.engine.start_serving();
  CHECK_EQ(f.allocate(50), 0u);
  CHECK_EQ(f.missed(Miss::kLate), 1u);
  CHECK(f.release(block));
  f.engine.end_iteration();
  CHECK_EQ(f.allocate(50), Fixture::base(0) + 80);
}

TEST(grown_requests_of_the_last_iteration_are_reported_after_its_end) {
  Fixture f;
  f.serve({slot(100, 2, 0), varying(200, 2, 1000)});
  f.add({slot(100, 2, 0), slot(300, 2, 500), slot(50, 3, 800)});
  CHECK(f.allocate(100) != 0);
  CHECK_EQ(f.allocate(250), 0u);
  f.engine.end_iteration();
  CHECK_EQ(f.engine.ended_plan(), 0u);
  CHECK_EQ(f.engine.take_grown().size(), 1u);
  CHECK_EQ(f.engine.take_grown().size(), 0u);
}

TEST(an_iterations_first_requests_choose_the_plan) {
  Fixture f;
  f.serve({slot(100, 2, 0), slot(200, 2, 1000)});
  f.add({slot(100, 2, 0), slot(300, 2, 500)});
  CHECK_EQ(f.allocate(100), Fixture::base(0));
  CHECK_EQ(f.allocate(300), Fixture::base(0) + 500);
  CHECK_EQ(f.engine.statistics().counters.takeovers, 1u);
  CHECK_EQ(f.engine.statistics().late_now, 1u);
  CHECK(f.release(Fixture::base(0)));
  CHECK(f.release(Fixture::base(0) + 500));
  CHECK_EQ(f.engine.statistics().slots.live, 0);
}

TEST(the_plan_that_followed_the_last_time_is_expected_again) {
  Fixture f;
  const std::vector<PlannedRequest> other = {slot(300, 1, 500)};
  f.serve({slot(100, 1, 0)});
  f.add(other);
  const std::vector<std::size_t> sizes = {100, 300};
  for (int iteration = 0; iteration < 8; ++iteration) {
    const std::uintptr_t block = f.allocate(sizes[static_cast<std::size_t>(iteration % 2)]);
    CHECK(block != 0);
    f.release(block);
    f.engine.end_iteration();
  }
  CHECK_EQ(f.engine.statistics().counters.takeovers, 2u);  // to the other plan and back
}

TEST(pause_delegates_and_resume_goes_on) {
  Fixture f;
  f.serve(kTwoSlots);
  const std::uintptr_t block = f.allocate(100);
  f.engine.pause();
  f.engine.pause();
  CHECK_EQ(*f.engine.mode(), 0u);
  CHECK_EQ(f.allocate(200), 0u);
  CHECK(!f.adopt(4096, 8));
  CHECK(f.release(block));
  f.engine.resume();
  CHECK_EQ(f.allocate(200), Fixture::base(0) + 1000);
  CHECK_EQ(f.engine.statistics().counters.requests, 2u);
}

TEST(settings_changed_while_paused_hold_after_resume) {
  Fixture f;
  f.serve(kTwoSlots);
  f.engine.pause();
  f.engine.start_recording();
  f.engine.remove_plans();
  CHECK_EQ(*f.engine.mode(), 0u);
  f.engine.resume();
  CHECK_EQ(*f.engine.mode(), static_cast<std::uint32_t>(PGMO_RECORDING));
}

TEST(owns_recognizes_slots_of_all_arenas) {
  Fixture f;
  f.serve(kTwoSlots);
  const std::uintptr_t old = f.allocate(100);
  f.replace(1);
  const auto owns = [&](std::uintptr_t address) {
    return f.engine.owns(reinterpret_cast<void*>(address));
  };
  CHECK(owns(old));
  CHECK(owns(Fixture::base(1) + 9'999));
  CHECK(!owns(Fixture::base(1) + 10'000));
  CHECK(!owns(Fixture::base(1) - 1));
  f.release(old);
  CHECK(!owns(old));
  f.engine.detach_arena();
  CHECK(!owns(Fixture::base(1)));
  CHECK(!owns(0));
}

TEST(requests_without_slots_match_the_plan) {
  Fixture f;
  f.serve({slot(100, 1, 0), persistent(50), slot(200, 3, 1000)});
  f.allocate(100);
  CHECK_EQ(f.allocate(50), 0u);
  CHECK_EQ(f.engine.statistics().counters.persistent_bytes, 50u);
  CHECK_EQ(f.allocate(77), 0u);  // unknown
  f.allocate(200);
  CHECK_EQ(f.engine.statistics().counters.persistent_bytes, 50u);
  CHECK_EQ(f.engine.statistics().counters.requested_bytes, 427u);
}

TEST(the_size_of_a_living_block_is_what_was_asked_for) {
  const pgmo_engine_api& api = *engine_api();
  Fixture f;
  f.serve({varying(100, 2, 0), slot(200, 2, 1000)});
  auto* handle = reinterpret_cast<pgmo_engine*>(&f.engine);
  const auto size_of = [&](std::uintptr_t address) {
    return api.size_of(handle, reinterpret_cast<void*>(address));
  };
  const std::uintptr_t first = f.allocate(90);
  const std::uintptr_t second = f.allocate(200);
  CHECK_EQ(size_of(first), 90u);
  CHECK_EQ(size_of(second), 200u);
  f.engine.end_iteration();  // both blocks become late
  CHECK_EQ(size_of(first), 90u);
  f.release(second);
  CHECK_EQ(size_of(second), 0u);
  f.engine.detach_arena();  // retires the arena
  CHECK_EQ(size_of(first), 90u);
  f.release(first);
  CHECK_EQ(size_of(first), 0u);
  CHECK_EQ(size_of(4096), 0u);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
