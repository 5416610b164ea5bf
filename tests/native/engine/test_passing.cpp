#include <initializer_list>
#include <thread>
#include <vector>

#include "check.hpp"
#include "engine_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

// Runs iterations and returns whether they pass. Sets the terms again after an iteration that does
// not.
struct Passer {
  Fixture& f;
  Passing::Terms terms;

  bool operator()(std::initializer_list<Bytes> sizes) {
    for (const Bytes bytes : sizes) {
      const std::uintptr_t block = f.allocate(bytes);
      if (block != 0) CHECK(f.release(block));
    }
    if (f.engine.pass_iteration()) return true;
    f.engine.end_iteration();
    f.engine.let_pass(terms);
    return false;
  }
};

}  // namespace

TEST(an_iteration_that_is_the_one_before_over_again_passes) {
  Fixture f;
  f.serve({slot(100, 1, 0), slot(400, 2, 1000)});
  Passer passes{f, {.most = 1000, .again = true}};
  CHECK(!passes({100, 200}));  // the plan does not have the second request
  CHECK(passes({100, 200}));
  CHECK(passes({100, 200}));
  CHECK(!passes({100, 300}));  // another size
  CHECK(passes({100, 300}));   // the same requests again
  CHECK(!passes({100, 200}));
  CHECK(passes({100, 200}));
  CHECK(!passes({200}));  // one request fewer
  CHECK(passes({200}));
  const std::uintptr_t kept = f.allocate(100);
  CHECK(!passes({200}));
  CHECK(!passes({200}));  // the block is still live
  CHECK(passes({200}));
  CHECK(f.release(kept));
  CHECK(!passes({200}));
}

TEST(an_iteration_that_comes_as_planned_passes_whatever_came_before) {
  Fixture f;
  f.serve({varying(100, 1, 0), slot(200, 2, 1000)});
  Passer passes{f, {.most = 1000}};
  CHECK(!passes({80, 200}));
  CHECK(passes({60, 200}));
  CHECK(passes({40, 200}));
  CHECK(passes({40, 200}));
  CHECK(passes({80}));         // requests that are left out waste no memory
  CHECK(!passes({101, 200}));  // larger than planned
  CHECK(!passes({101, 200}));  // larger again
  f.engine.take_grown();
  CHECK(!passes({80, 200, 30}));  // one request more than planned
  CHECK(!passes({}));             // no requests
}

TEST(anything_passes_without_a_plan) {
  Fixture f;
  Passer passes{f, {.most = 2, .anything = true}};
  CHECK(!passes({100, 200}));
  CHECK(passes({300}));
  CHECK(passes({}));
  CHECK(!passes({100}));
}

TEST(no_more_pass_than_may) {
  Fixture f;
  f.serve({slot(100, 1, 0), slot(200, 2, 1000)});
  Passer passes{f, {.most = 2}};
  for (int round = 0; round < 3; ++round) {
    CHECK(!passes({100, 200}));
    CHECK(passes({100, 200}));
    CHECK(passes({100, 200}));
  }
  f.engine.let_pass({.most = 1000});
  f.engine.remove_plans();
  f.serve({slot(100, 1, 0), slot(200, 2, 1000)});
  CHECK(!passes({100, 200}));  // the terms were set for other plans
}

TEST(passed_iterations_are_reported_once_and_equal_ones_together) {
  Fixture f;
  f.serve({varying(100, 1, 0), slot(200, 2, 1000)});
  Passer passes{f, {.most = 1000}};
  CHECK(!passes({100, 200}));
  for (int times = 0; times < 3; ++times) CHECK(passes({50, 200}));
  CHECK(passes({60, 200}));
  std::vector<Passed> passed;
  const Statistics at_end = f.engine.take_passed(passed);
  CHECK_EQ(passed.size(), 2u);
  CHECK_EQ(passed[0].iterations, 3u);
  CHECK_EQ(passed[0].change[0], 2u);    // requests
  CHECK_EQ(passed[0].change[8], 250u);  // requested bytes
  CHECK_EQ(passed[1].iterations, 1u);
  CHECK_EQ(passed[1].change[8], 260u);
  CHECK_EQ(at_end.counters.iterations, 5u);
  CHECK_EQ(at_end.counters.requested_bytes, f.engine.statistics().counters.requested_bytes);
  f.engine.take_passed(passed);
  CHECK(passed.empty());
  // Different iterations pass until there are too many entries.
  for (std::size_t times = 0; times < Passing::kMost; ++times) {
    CHECK(passes({static_cast<Bytes>(10 + times), 200}));
  }
  CHECK(!passes({90, 200}));
  f.engine.take_passed(passed);
  CHECK_EQ(passed.size(), Passing::kMost);
  CHECK(passes({90, 200}));
}

TEST(an_iteration_whose_end_makes_blocks_late_passes_only_as_planned) {
  Fixture f;
  f.serve({slot(100, 1, 0), slot(200, 2, 1000)});
  Passer passes{f, {.most = 1000}};
  CHECK(!passes({100, 200}));
  const std::uintptr_t late = f.allocate(100);
  CHECK(passes({}));  // cut short
  CHECK_EQ(f.engine.statistics().late_now, 1u);
  std::vector<Passed> passed;
  CHECK_EQ(f.engine.take_passed(passed).late_now, 1u);
  CHECK_EQ(passed[0].change[12], 1u);
  CHECK(!passes({100, 200}));  // the first slot is occupied
  CHECK(f.release(late));
  CHECK(passes({100, 200}));
}

TEST(a_recording_of_what_passes_begins_anew) {
  Fixture f;
  f.serve({slot(100, 1, 0), slot(200, 2, 1000)});
  Passer passes{f, {.most = 1000}};
  CHECK(!passes({100, 200}));
  f.engine.start_recording();
  CHECK(passes({100, 200}));
  CHECK_EQ(f.engine.events().size(), 0u);
  CHECK(f.release(f.allocate(100)));
  CHECK_EQ(f.engine.events().size(), 2u);
  CHECK_EQ(f.engine.statistics().recorded_requests, 3u);
  CHECK_EQ(f.engine.statistics().recorded_bytes, 400u);
}

TEST(steps_pass_on_one_thread_alone) {
  Fixture f;
  f.serve({slot(100, 1, 0)});
  Passer passes{f, {.most = 1000, .again = true}};
  CHECK(!passes({100}));
  CHECK(f.release(f.allocate(100)));
  CHECK(!f.engine.pass_step());
  f.engine.let_steps_pass(Threads::own());
  std::thread([&] { CHECK(!f.engine.pass_step()); }).join();
  CHECK(f.engine.pass_step());
  CHECK(f.release(f.allocate(100)));
  f.engine.let_steps_pass(0);
  CHECK(!f.engine.pass_step());
  CHECK(f.engine.pass_iteration());
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
