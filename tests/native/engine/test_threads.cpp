// Tests of the activity of threads, and of delegated threads.

#include <thread>
#include <vector>

#include "check.hpp"
#include "engine_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

template <typename Work>
void on_another_thread(Work&& work) {
  std::thread(work).join();
}

}  // namespace

TEST(requests_are_counted_by_thread_and_iteration) {
  Fixture f;
  f.engine.start_recording();
  f.adopt(4096, 1);
  on_another_thread([&] {
    f.adopt(8192, 2);
    f.adopt(12288, 3);
  });
  f.adopt(16384, 4);
  const std::vector<Threads::Activity> active = f.engine.threads();
  CHECK_EQ(active.size(), 2u);
  CHECK_EQ(active.at(0).thread, Threads::own());
  CHECK_EQ(active.at(0).first, 1u);
  CHECK_EQ(active.at(0).last, 4u);
  CHECK_EQ(active.at(0).count, 2u);
  CHECK(active.at(1).thread != Threads::own());
  CHECK_EQ(active.at(1).first, 2u);
  CHECK_EQ(active.at(1).last, 3u);
  f.engine.end_iteration();
  CHECK_EQ(f.engine.threads().size(), 0u);
  f.adopt(20480, 1);
  CHECK_EQ(f.engine.threads().at(0).first, 1u);
}

TEST(a_request_that_is_refused_is_counted_once) {
  Fixture f;
  f.serve(kTwoSlots);
  CHECK_EQ(f.allocate(7777), 0u);
  f.adopt(4096, 7777);
  CHECK_EQ(f.engine.threads().at(0).count, 1u);
}

TEST(requests_of_a_delegated_thread_are_not_recorded) {
  Fixture f;
  f.serve(kTwoSlots);
  f.engine.start_recording();
  const std::uintptr_t before = f.allocate(100);
  CHECK(before != 0);
  f.engine.delegate_thread(Threads::own(), true);
  f.engine.delegate_thread(Threads::own(), true);
  CHECK_EQ(f.allocate(200), 0u);
  CHECK(!f.adopt(4096, 200));
  CHECK(f.release(before));  // a slot from before the delegation
  on_another_thread([&] { CHECK(f.allocate(200) != 0); });
  f.engine.delegate_thread(Threads::own(), false);
  CHECK(f.adopt(8192, 5));
  CHECK_EQ(f.engine.events().size(), 4u);  // requests of two slots, a free, the last request
}

TEST(tags_of_another_tagger_are_not_recorded) {
  Fixture f;
  f.engine.start_recording();
  set_thread_tag(7, 1);
  f.adopt(4096, 1);  // the engine expects no tags
  f.engine.expect_tags(1);
  f.adopt(8192, 1);
  f.engine.expect_tags(2);
  f.adopt(12288, 1);  // the tag of an earlier tagger
  set_thread_tag(3, 2);
  f.adopt(16384, 1);
  set_thread_tag(-1, 2);
  const std::vector<Event> events = f.engine.events();
  CHECK_EQ(events.at(0).tag, -1);
  CHECK_EQ(events.at(1).tag, 7);
  CHECK_EQ(events.at(2).tag, -1);
  CHECK_EQ(events.at(3).tag, 3);
  CHECK(next_tag_generation() != next_tag_generation());
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
