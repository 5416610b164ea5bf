#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.hpp"
#include "engine/engine.hpp"
#include "failing_new.hpp"
#include "rows.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

constexpr std::uint64_t kStream = 0x5eed;
const std::vector<std::uint64_t> kStreams = {kStream};

// An engine, and arenas whose addresses nobody reads or writes.
struct Fixture {
  Engine engine;
  int given_back = 0;

  static std::uintptr_t base(int arena) {
    return 0x10000000u + static_cast<std::uintptr_t>(arena) * 0x1000000u;
  }
  void attach(int arena, std::size_t bytes = 10'000) {
    engine.attach_arena({reinterpret_cast<void*>(base(arena)), bytes,
                         [](void* count) { ++*static_cast<int*>(count); }, &given_back});
  }
  Engine::PlanId add(const std::vector<PlannedRequest>& rows, Bytes arena = 10'000) {
    return engine.add_plan(rows, kStreams, arena, 1);
  }
  void serve(const std::vector<PlannedRequest>& rows) {
    attach(0);
    add(rows);
    engine.start_serving();
  }
  std::uintptr_t allocate(std::size_t bytes, std::uint64_t stream = kStream) {
    return reinterpret_cast<std::uintptr_t>(engine.allocate(bytes, stream));
  }
  bool release(std::uintptr_t address) { return engine.release(reinterpret_cast<void*>(address)); }
  bool adopt(std::uintptr_t address, std::size_t bytes) {
    return engine.adopt(reinterpret_cast<void*>(address), bytes, kStream);
  }
  std::uint64_t missed(Miss reason) {
    return engine.statistics().counters.misses[static_cast<int>(reason)];
  }
};

const std::vector<PlannedRequest> kTwoSlots = {slot(100, 2, 0), slot(200, 2, 1000)};

}  // namespace

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
  CHECK(api.adopt(handle, &elsewhere, 30, kStream) != 0);
  pgmo_engine_statistics statistics;
  api.statistics(handle, &statistics);
  CHECK_EQ(statistics.requests, 1u);
  CHECK_EQ(statistics.hits, 1u);
  CHECK_EQ(statistics.slot_bytes, 100u);
  CHECK_EQ(statistics.live_slot_bytes, 100u);
  CHECK_EQ(statistics.fallback_bytes, 30u);
  CHECK_EQ(statistics.arena_bytes, 10'000u);
  CHECK_EQ(api.release(handle, served), static_cast<int>(PGMO_SLOT));
  CHECK_EQ(api.release(handle, &elsewhere), static_cast<int>(PGMO_FOREIGN));
  api.statistics(handle, &statistics);
  CHECK_EQ(statistics.live_slot_bytes, 0u);
  CHECK_EQ(statistics.live_fallback_bytes, 0u);
  CHECK_EQ(statistics.peak_slot_bytes, 100u);
  CHECK_EQ(statistics.peak_fallback_bytes, 30u);
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
  CHECK_THROWS(f.add(kTwoSlots), std::invalid_argument);
  f.attach(0, 9'999);
  CHECK_THROWS(f.add(kTwoSlots), std::invalid_argument);
  CHECK_THROWS(f.add(kTwoSlots, -1), std::invalid_argument);
  CHECK_EQ(f.add(kTwoSlots, 9'999), 0u);
}

TEST(an_arena_too_small_for_the_plans_is_refused_and_nothing_changes) {
  Fixture f;
  f.serve(kTwoSlots);
  CHECK_THROWS(f.attach(1, 9'999), std::invalid_argument);
  CHECK_EQ(f.given_back, 0);
  CHECK_EQ(f.allocate(100), Fixture::base(0));
}

TEST(an_arena_that_is_no_range_of_memory_is_refused) {
  Fixture f;
  CHECK_THROWS(f.engine.attach_arena({}), std::invalid_argument);
  CHECK_THROWS(f.attach(0, 0), std::invalid_argument);
  CHECK_THROWS(f.attach(0, ~std::size_t{0}), std::invalid_argument);
}

TEST(malformed_plans_are_refused_and_leave_nothing_behind) {
  Fixture f;
  f.attach(0);
  CHECK_THROWS(f.add({slot(100, 1, 9'950)}), std::invalid_argument);
  CHECK_THROWS(f.add({slot(100, 1, 0, 1)}), std::invalid_argument);  // the second of one stream
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
  CHECK_EQ(f.add(kTwoSlots), 1u);  // only the one that succeeded is there
  f.engine.start_serving();
  for (int iteration = 0; iteration < 3; ++iteration) f.engine.end_iteration();
  CHECK_EQ(f.allocate(100), Fixture::base(0));
}

TEST(a_replaced_arena_goes_back_once_when_its_last_block_has_died) {
  Fixture f;
  f.serve(kTwoSlots);
  const std::uintptr_t first = f.allocate(100);
  const std::uintptr_t second = f.allocate(200);
  f.attach(1);
  CHECK_EQ(f.engine.statistics().arenas, 2u);
  CHECK_EQ(f.engine.statistics().arena_bytes, 20'000);
  CHECK_EQ(f.allocate(100), Fixture::base(1));
  CHECK(f.release(first));
  CHECK_EQ(f.given_back, 0);
  CHECK(f.release(second));
  CHECK_EQ(f.given_back, 1);
  CHECK_EQ(f.engine.statistics().arenas, 1u);
  CHECK_EQ(f.engine.statistics().slots.live, 100);
  CHECK(f.release(Fixture::base(1)));
  f.engine.detach_arena();
  CHECK_EQ(f.given_back, 2);
  f.engine.detach_arena();
  CHECK_EQ(f.given_back, 2);
}

TEST(a_late_block_keeps_its_arena) {
  Fixture f;
  f.serve({slot(100, 1, 0), slot(200, 2, 1000)});
  const std::uintptr_t block = f.allocate(100);
  f.allocate(200);
  CHECK_EQ(f.engine.statistics().late_now, 1u);
  CHECK(f.release(Fixture::base(0) + 1000));
  f.engine.detach_arena();
  CHECK_EQ(f.given_back, 0);
  CHECK_EQ(f.engine.statistics().late_now, 0u);  // of the current arena, which is none
  CHECK(f.release(block));
  CHECK_EQ(f.given_back, 1);
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

TEST(an_iterations_first_requests_choose_the_plan) {
  Fixture f;
  f.serve({slot(100, 2, 0), slot(200, 2, 1000)});
  f.add({slot(100, 2, 0), slot(300, 2, 500)});
  CHECK_EQ(f.allocate(100), Fixture::base(0));
  CHECK_EQ(f.allocate(300), Fixture::base(0) + 500);
  CHECK_EQ(f.engine.selected_plan(), 1u);
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
  CHECK_EQ(f.engine.statistics().counters.takeovers, 2u);  // there and back, once
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

TEST(what_is_switched_while_paused_holds_after_resume) {
  Fixture f;
  f.serve(kTwoSlots);
  f.engine.pause();
  f.engine.start_recording();
  f.engine.stop_serving();
  CHECK_EQ(*f.engine.mode(), 0u);
  f.engine.resume();
  CHECK_EQ(*f.engine.mode(), static_cast<std::uint32_t>(PGMO_RECORDING));
}

TEST(adopted_blocks_are_accounted_until_they_are_released) {
  Fixture f;
  f.serve(kTwoSlots);
  CHECK(f.adopt(4096, 300));
  CHECK(f.adopt(8192, 50));
  f.engine.stop_serving();
  CHECK(!f.release(4096));
  CHECK_EQ(f.engine.statistics().fallback.live, 50);
  CHECK_EQ(f.engine.statistics().fallback.peak, 350);
  f.engine.reset_peaks();
  CHECK_EQ(f.engine.statistics().fallback.peak, 50);
  CHECK(!f.release(8192));
  CHECK_EQ(f.engine.statistics().fallback.live, 0);
}

TEST(a_recording_tells_requests_frees_and_steps_in_order) {
  Fixture f;
  f.serve(kTwoSlots);
  f.adopt(512, 9);  // before the recording: its free is nobody's business
  f.engine.start_recording();
  set_thread_tag(7);
  const std::uintptr_t served = f.allocate(100);
  set_thread_tag(-1);
  f.adopt(4096, 300);
  f.release(512);
  f.release(served);
  f.engine.end_iteration();
  std::thread([&] { f.release(4096); }).join();
  f.engine.stop_recording();
  f.adopt(4096, 11);
  const std::vector<Event> events = f.engine.events(0);
  CHECK_EQ(events.size(), 5u);
  const Event::Kind kinds[] = {Event::kRequest, Event::kRequest, Event::kFree, Event::kStep,
                               Event::kFree};
  for (std::size_t at = 0; at < 5; ++at) CHECK(events.at(at).kind == kinds[at]);
  CHECK_EQ(events.at(0).bytes, 100);
  CHECK_EQ(events.at(0).stream, kStream);
  CHECK_EQ(events.at(0).tag, 7);
  CHECK_EQ(events.at(1).tag, -1);
  CHECK_EQ(events.at(1).block, 1u);
  CHECK_EQ(events.at(2).block, 0u);
  CHECK_EQ(events.at(4).block, 1u);
  CHECK(events.at(4).thread != events.at(2).thread);
  CHECK_EQ(f.engine.events(3).size(), 2u);
  CHECK_EQ(f.engine.events(99).size(), 0u);
  CHECK(!f.engine.recording_truncated());
}

TEST(a_second_recording_knows_nothing_of_the_first) {
  Fixture f;
  f.engine.start_recording();
  f.adopt(4096, 300);
  f.engine.start_recording();
  f.release(4096);
  CHECK_EQ(f.engine.events(0).size(), 0u);
}

TEST(a_recording_without_memory_is_truncated_and_says_so) {
  Fixture f;
  f.engine.start_recording();
  {
    const FailingAllocation failing(0);
    CHECK(f.adopt(4096, 300));
    CHECK(failing.happened());
  }
  CHECK(f.engine.recording_truncated());
  CHECK(!f.release(4096));
  CHECK_EQ(f.engine.statistics().fallback.live, 0);
}

TEST(a_forked_child_delegates_and_still_knows_its_slots) {
  Fixture f;
  f.serve(kTwoSlots);
  const std::uintptr_t block = f.allocate(100);
  f.engine.pause();  // does not come back in the child
  const pid_t child = fork();
  if (child == 0) {
    f.engine.resume();
    const bool bypass = *f.engine.mode() == 0 && f.allocate(200) == 0 && !f.adopt(4096, 8);
    const bool known = f.release(block);
    _exit(bypass && known ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
  f.engine.resume();
  CHECK_EQ(f.allocate(200), Fixture::base(0) + 1000);
}

TEST(a_fork_amid_other_threads_leaves_the_child_unlocked) {
  Fixture f;
  f.serve(kTwoSlots);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      f.release(f.allocate(100));
      f.engine.end_iteration();
    }
  });
  int fine = 0;
  constexpr int kForks = 50;
  for (int turn = 0; turn < kForks; ++turn) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // rather than to wait forever for a lock
      f.release(Fixture::base(0));
      _exit(f.allocate(100) == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    fine += status == 0;
  }
  stop = true;
  other.join();
  CHECK_EQ(fine, kForks);
}

TEST(owns_tells_slots_of_all_arenas) {
  Fixture f;
  f.serve(kTwoSlots);
  const std::uintptr_t old = f.allocate(100);
  f.attach(1);
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

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
