#include <thread>
#include <vector>

#include "check.hpp"
#include "engine_fixture.hpp"
#include "failing_new.hpp"

using namespace pgmo;
using namespace pgmo::test;

TEST(adopted_blocks_are_accounted_until_they_are_released) {
  Fixture f;
  f.serve(kTwoSlots);
  CHECK(f.adopt(4096, 300));
  CHECK(f.adopt(8192, 50));
  f.engine.remove_plans();
  CHECK(!f.release(4096));
  CHECK_EQ(f.engine.statistics().fallback.live, 50);
  CHECK_EQ(f.engine.statistics().fallback.peak, 350);
  f.engine.reset_peaks();
  CHECK_EQ(f.engine.statistics().fallback.peak, 50);
  CHECK(!f.release(8192));
  CHECK_EQ(f.engine.statistics().fallback.live, 0);
}

TEST(a_recording_has_requests_frees_and_steps_in_order) {
  Fixture f;
  f.serve(kTwoSlots);
  f.adopt(512, 9);  // before the recording, so its free is not recorded
  f.engine.start_recording();
  f.engine.expect_tags(1);
  set_thread_tag(7, 1);
  const std::uintptr_t served = f.allocate(100);
  set_thread_tag(-1, 1);
  f.adopt(4096, 300);
  f.release(512);
  f.release(served);
  f.engine.end_iteration();
  std::thread([&] { f.release(4096); }).join();
  f.engine.stop_recording();
  f.adopt(4096, 11);
  const std::vector<Event> events = f.engine.events();
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
  CHECK(!f.engine.recording_truncated());
}

TEST(a_block_in_a_gap_of_the_frameworks_is_recorded_as_such) {
  Fixture f;
  f.engine.start_recording();
  f.adopt(4096, 100);
  CHECK(f.engine.adopt(reinterpret_cast<void*>(8192), 200, kStream, true));
  f.adopt(12288, 300);
  const std::vector<Event> events = f.engine.events();
  CHECK_EQ(events.size(), 3u);
  CHECK_EQ(events.at(0).in_gap, 0);
  CHECK_EQ(events.at(1).in_gap, 1);
  CHECK_EQ(events.at(2).in_gap, 0);
}

TEST(a_use_on_another_stream_is_recorded) {
  Fixture f;
  f.serve(kTwoSlots);
  f.adopt(512, 9);  // before the recording
  f.engine.start_recording();
  const std::uintptr_t served = f.allocate(100);
  f.adopt(4096, 300, kOtherStream);
  CHECK(!f.shared(4096, kOtherStream));  // its own stream
  CHECK(!f.shared(4096, kStream));       // a framework block, whose free the framework delays
  CHECK(f.shared(served, kOtherStream));
  CHECK(!f.shared(served, kStream));
  CHECK(!f.shared(512, kOtherStream));
  CHECK(!f.shared(8192, kOtherStream));  // an unknown block
  f.release(4096);
  f.engine.stop_recording();
  CHECK(f.shared(served, kOtherStream));
  const std::vector<Event> events = f.engine.events();
  CHECK_EQ(events.size(), 5u);
  CHECK(events.at(2).kind == Event::kShared);
  CHECK_EQ(events.at(2).block, 1u);
  CHECK_EQ(events.at(2).bytes, 0);
  CHECK(events.at(3).kind == Event::kShared);
  CHECK_EQ(events.at(3).block, 0u);
  CHECK(events.at(4).kind == Event::kFree);
}

TEST(a_use_is_not_recorded_for_a_block_of_an_earlier_recording) {
  Fixture f;
  f.engine.start_recording();
  f.adopt(4096, 300);
  f.engine.start_recording();
  CHECK(!f.shared(4096, kOtherStream));
  CHECK_EQ(f.engine.events().size(), 0u);
}

TEST(a_use_on_another_stream_than_the_arenas_puts_off_the_release) {
  Fixture f;
  f.engine.add_arena(kStream, 0, f.range(0, 1000));
  f.engine.add_arena(kOtherStream, 1000, f.range(1, 1000));
  f.add({slot(10, 2, 0, 0), slot(20, 3, 1000, 1)});
  f.engine.start_serving();
  const std::uintptr_t first = f.allocate(10);
  const std::uintptr_t second = f.allocate(20, kOtherStream);
  CHECK(!f.shared(first, kStream));
  CHECK(f.shared(first, kOtherStream));
  CHECK(f.shared(first, 77));
  CHECK(!f.shared(second, kOtherStream));
  CHECK(f.shared(second, kStream));
  f.engine.detach_arena();
  CHECK(f.shared(first, kOtherStream));  // a slot of a retired arena
}

TEST(a_stream_is_that_of_the_block_and_not_of_one_before_it) {
  Fixture f;
  f.engine.add_spill(20'000, f.range(2));
  f.engine.add_arena(kStream, 0, f.range(0));
  f.engine.add_arena(kOtherStream, 10'000, f.range(1));
  f.add({slot(100, 1, 20'000, 0), slot(200, 2, 20'000, 1)}, 30'000);
  f.engine.start_serving();
  f.engine.start_recording();
  const std::uintptr_t first = f.allocate(100);
  f.engine.stop_recording();
  f.release(first);
  CHECK_EQ(f.allocate(200, kOtherStream), first);
  CHECK(f.shared(first, kStream));
}

TEST(a_second_recording_knows_nothing_of_the_first) {
  Fixture f;
  f.engine.start_recording();
  f.adopt(4096, 300);
  f.engine.start_recording();
  f.release(4096);
  CHECK_EQ(f.engine.events().size(), 0u);
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

TEST(a_forgotten_recording_goes_on_from_nothing) {
  Fixture f;
  f.engine.start_recording();
  f.adopt(4096, 300);
  f.adopt(8192, 50);
  f.engine.forget_recording();
  CHECK_EQ(f.engine.events().size(), 0u);
  CHECK(!f.release(4096));  // requested before, so its free is not recorded
  f.adopt(4096, 11);
  const std::vector<Event> events = f.engine.events();
  CHECK_EQ(events.size(), 1u);
  CHECK_EQ(events.at(0).block, 0u);
  CHECK_EQ(events.at(0).bytes, 11);
  CHECK_EQ(f.engine.statistics().fallback.live, 61);
  f.engine.stop_recording();
  f.engine.forget_recording();
  CHECK(!f.adopt(512, 9));
  CHECK_EQ(f.engine.events().size(), 0u);
}

TEST(a_truncated_recording_that_is_forgotten_starts_anew) {
  Fixture f;
  f.engine.start_recording();
  {
    const FailingAllocation failing(0);
    f.adopt(4096, 300);
  }
  CHECK(f.engine.recording_truncated());
  f.engine.forget_recording();
  CHECK(!f.engine.recording_truncated());
  f.adopt(8192, 50);
  CHECK_EQ(f.engine.events().size(), 1u);
}

TEST(taken_events_leave_no_memory_behind) {
  Recorder recorder;
  recorder.start();
  for (Bytes bytes = 1; bytes <= 100; ++bytes) recorder.request(bytes, kStream);
  CHECK(recorder.events().capacity() >= 100);
  CHECK_EQ(recorder.take().size(), 100u);
  CHECK_EQ(recorder.events().capacity(), 0u);
  CHECK(recorder.active());
}

TEST(events_without_memory_throw_and_leave_the_engine_unlocked) {
  Fixture f;
  f.engine.start_recording();
  f.adopt(4096, 300);
  {
    const FailingAllocation failing(0);
    CHECK_THROWS(f.engine.events(), std::bad_alloc);
  }
  CHECK_EQ(f.engine.events().size(), 1u);
}

TEST(events_are_read_whole_while_another_thread_records) {
  Fixture f;
  f.engine.start_recording();
  constexpr std::size_t kBlocks = 50'000;
  std::thread program([&] {
    for (std::size_t at = 1; at <= kBlocks; ++at) f.adopt(at * 16, at);
  });
  std::size_t seen = 0;
  std::size_t wrong = 0;
  while (seen < kBlocks) {
    seen = 0;
    for (const Event& event : f.engine.events()) {
      wrong += event.block != seen || event.bytes != static_cast<Bytes>(seen + 1);
      ++seen;
    }
  }
  program.join();
  CHECK_EQ(wrong, 0u);
  CHECK_EQ(f.engine.events().size(), kBlocks);
}

// --- blocks whose free was not reported ----------------------------------------------------------

TEST(the_arena_s_stream_counts_not_that_of_a_block_that_was_there_before) {
  Fixture f;
  f.engine.add_arena(kStream, 0, f.range(0));
  f.add(kTwoSlots);
  f.engine.start_serving();
  CHECK(f.adopt(Fixture::base(0), 4096, kOtherStream));  // an outdated entry
  CHECK_EQ(f.allocate(100), Fixture::base(0));
  CHECK(f.shared(Fixture::base(0), kOtherStream));
  CHECK(!f.shared(Fixture::base(0), kStream));
}

TEST(blocks_tracked_in_the_memory_of_an_arena_are_forgotten) {
  Fixture f;
  f.engine.start_recording();
  for (const int range : {0, 1}) CHECK(f.adopt(Fixture::base(range) - 50, 100));
  CHECK(f.adopt(Fixture::base(0) - 150, 100));  // ends before the arena
  CHECK(f.adopt(Fixture::base(0) + 10'000, 100));
  CHECK_EQ(f.engine.statistics().fallback.live, 400);
  f.engine.add_arena(kStream, 0, f.range(0));
  CHECK_EQ(f.engine.statistics().fallback.live, 300);
  f.engine.add_arena(kOtherStream, 10'000, f.range(1));
  CHECK_EQ(f.engine.statistics().fallback.live, 200);
  f.release(Fixture::base(0) - 150);
  f.release(Fixture::base(0) + 10'000);
  CHECK_EQ(f.engine.statistics().fallback.live, 0);
}

TEST(an_address_that_comes_again_ends_the_block_of_before) {
  ::setenv("PGMO_CHECK", "1", 1);
  Fixture f;
  ::unsetenv("PGMO_CHECK");
  f.engine.start_recording();
  CHECK(f.adopt(4096, 100));
  CHECK(f.adopt(4096, 300));  // would overlap the first block if that counted as live
  CHECK_EQ(f.engine.statistics().fallback.live, 300);
  const std::vector<Event> events = f.engine.events();
  CHECK_EQ(events.size(), 3u);  // a request, its free, a request
  f.release(4096);
  CHECK_EQ(f.engine.statistics().fallback.live, 0);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
