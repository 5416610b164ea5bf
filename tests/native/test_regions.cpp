#include <cstdint>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "engine/memory/regions.hpp"
#include "engine_fixture.hpp"
#include "failing_new.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

constexpr std::uintptr_t kA = 0x100000;
constexpr std::uintptr_t kB = 0x900000;

pgmo_arena memory(std::uintptr_t base, std::size_t bytes) {
  return {reinterpret_cast<void*>(base), bytes, nullptr, nullptr};
}

// Request 0 dies at once; requests 1 and 2 have places for good.
const std::vector<PlannedRequest> kOpens = {slot(100, 1, 0), opening(300, 0), opening(200, 512)};

// Serves the plan from range 0, with range 1 as the opening's region.
void serve_with_opening(Fixture& f, const std::vector<PlannedRequest>& rows,
                        std::size_t bytes = 1000) {
  f.engine.add_opening_region(f.range(1, bytes));
  f.serve(rows);
}

}  // namespace

TEST(places_are_within_a_region_and_disjoint) {
  Regions regions;
  const std::uint32_t region = regions.add(memory(kA, 1000), false);
  CHECK_EQ(regions.place(region, 100, 50).value_or(0), kA + 100);
  for (const Offset offset : {51, 99, 100, 101, 149}) CHECK(!regions.place(region, offset, 50));
  CHECK(!regions.place(region, 0, 1000));
  CHECK_EQ(regions.place(region, 150, 850).value_or(0), kA + 150);
  CHECK_EQ(regions.place(region, 0, 100).value_or(0), kA);
  CHECK_EQ(regions.bytes(), 1000);
}

TEST(places_that_are_none_are_refused) {
  Regions regions;
  const std::uint32_t region = regions.add(memory(kA, 1000), false);
  CHECK(!regions.place(region, -1, 10));
  CHECK(!regions.place(region, 0, 0));
  CHECK(!regions.place(region, 0, -5));
  CHECK(!regions.place(region, 0, 1001));
  CHECK(!regions.place(region, 991, 10));
  CHECK(!regions.place(region, 1000, 1));
  CHECK(!regions.place(region, ~(Offset{1} << 63), 10));
  CHECK(!regions.place(region, 10, ~(Bytes{1} << 63)));
  CHECK(!regions.place(region + 1, 0, 10));
  CHECK(!regions.place(~std::uint32_t{0}, 0, 10));
  CHECK(!regions.place_opening(Regions::kOpening, 10));  // there is none
  CHECK(regions.place(region, 0, 1000));
}

TEST(regions_that_are_no_range_of_memory_are_refused) {
  Regions regions;
  CHECK_THROWS(regions.add(memory(0, 1000), false), std::invalid_argument);
  CHECK_THROWS(regions.add(memory(kA, 0), false), std::invalid_argument);
  CHECK_THROWS(regions.add(memory(kA, ~std::size_t{0}), true), std::invalid_argument);
  CHECK(!regions.has_opening());
  CHECK_EQ(regions.bytes(), 0);
}

TEST(a_place_that_is_free_again_is_given_again) {
  Regions regions;
  const std::uint32_t region = regions.add(memory(kA, 1000), false);
  regions.place(region, 0, 600);
  CHECK(!regions.release(kA - 1));
  CHECK(!regions.release(kA + 1000));
  CHECK_EQ(regions.release(kA + 1).value().bytes, 0);  // no block begins there
  const Regions::Released released = regions.release(kA).value();
  CHECK_EQ(released.bytes, 600);
  CHECK(released.empty.base == nullptr);  // it is open
  CHECK_EQ(regions.release(kA).value().bytes, 0);
  CHECK_EQ(regions.place(region, 300, 600).value_or(0), kA + 300);
}

TEST(a_closed_region_goes_back_with_its_last_block) {
  Regions regions;
  const std::uint32_t first = regions.add(memory(kA, 1000), false);
  const std::uint32_t second = regions.add(memory(kB, 1000), false);
  CHECK(first != second);
  regions.place(first, 0, 10);
  regions.place(first, 10, 10);
  CHECK(regions.close(first).base == nullptr);
  CHECK(regions.close(first).base == nullptr);
  CHECK(!regions.place(first, 500, 10));
  CHECK(regions.owns(kA + 999));
  CHECK(regions.release(kA).value().empty.base == nullptr);
  CHECK(regions.release(kA + 10).value().empty.base == reinterpret_cast<void*>(kA));
  CHECK(!regions.release(kA + 10));
  CHECK(!regions.owns(kA));
  CHECK(regions.close(first).base == nullptr);
  CHECK_EQ(regions.place(second, 0, 10).value_or(0), kB);
  regions.release(kB);
  CHECK(regions.close(second).base == reinterpret_cast<void*>(kB));
  CHECK_EQ(regions.bytes(), 0);
  CHECK(regions.add(memory(kA, 10), false) != first);  // a number is used once
}

TEST(the_opening_has_one_region_at_a_time) {
  Regions regions;
  const std::uint32_t first = regions.add(memory(kA, 1000), true);
  CHECK_THROWS(regions.add(memory(kB, 1000), true), std::invalid_argument);
  CHECK_EQ(regions.opening_bytes(), 1000);
  CHECK(regions.place_opening(Regions::kOpening + 100, 10));
  CHECK_EQ(regions.opening_address(Regions::kOpening + 100), kA + 100);
  CHECK(!regions.place(first, 105, 10));
  CHECK(regions.close_opening().base == nullptr);
  CHECK(!regions.has_opening());
  CHECK_EQ(regions.opening_bytes(), 0);
  CHECK(!regions.place_opening(Regions::kOpening + 500, 10));
  CHECK(regions.close_opening().base == nullptr);
  regions.add(memory(kB, 500), true);
  CHECK(regions.place_opening(Regions::kOpening + 100, 10));
  CHECK_EQ(regions.opening_address(Regions::kOpening + 100), kB + 100);
  CHECK(regions.release(kA + 100).value().empty.base == reinterpret_cast<void*>(kA));
}

TEST(a_place_without_memory_for_its_note_is_not_taken) {
  Regions regions;
  const std::uint32_t region = regions.add(memory(kA, 1000), false);
  {
    const FailingAllocation failing(0);
    CHECK_THROWS(regions.place(region, 0, 10), std::bad_alloc);
  }
  CHECK_EQ(regions.place(region, 0, 10).value_or(0), kA);
}

// --- as the engine uses them --------------------------------------------------------------------

TEST(the_opening_is_served_from_its_region_once) {
  Fixture f;
  serve_with_opening(f, kOpens);
  CHECK_EQ(f.allocate(100), Fixture::base(0));
  CHECK_EQ(f.allocate(300), Fixture::base(1));
  CHECK_EQ(f.allocate(200), Fixture::base(1) + 512);
  f.release(Fixture::base(0));
  f.engine.end_iteration();
  const Statistics first = f.engine.statistics();
  CHECK_EQ(first.counters.hits, 3u);
  CHECK_EQ(first.counters.hit_bytes, 600u);
  CHECK_EQ(first.regions.live, 500);
  CHECK_EQ(first.regions.peak, 500);
  CHECK_EQ(first.region_bytes, 1000);
  CHECK_EQ(first.arena_bytes, 10'000);
  CHECK_EQ(first.slots.live, 0);
  CHECK_EQ(first.slots.peak, 100);
  CHECK_EQ(first.late_now, 0u);
  for (int iteration = 0; iteration < 3; ++iteration) {
    CHECK_EQ(f.allocate(100), Fixture::base(0));
    CHECK_EQ(f.allocate(300), 0u);
    CHECK_EQ(f.allocate(200), 0u);
    f.release(Fixture::base(0));
    f.engine.end_iteration();
  }
  CHECK_EQ(f.missed(Miss::kPersistent), 6u);
  CHECK_EQ(f.engine.statistics().counters.skipped, 0u);
}

TEST(a_place_for_good_is_served_again_when_its_block_has_died) {
  Fixture f;
  serve_with_opening(f, kOpens);
  f.allocate(100);
  CHECK_EQ(f.allocate(300), Fixture::base(1));
  CHECK(f.release(Fixture::base(1)));
  CHECK_EQ(f.engine.statistics().regions.live, 0);
  CHECK_EQ(f.engine.statistics().regions.peak, 300);
  f.engine.reset_peaks();
  CHECK_EQ(f.engine.statistics().regions.peak, 0);
  f.release(Fixture::base(0));
  f.engine.end_iteration();
  f.allocate(100);
  CHECK_EQ(f.allocate(300), Fixture::base(1));
}

TEST(places_for_good_that_overlap_are_served_one_at_a_time) {
  Fixture f;
  serve_with_opening(f, {opening(300, 0), opening(200, 299)});
  CHECK_EQ(f.allocate(300), Fixture::base(1));
  CHECK_EQ(f.allocate(200), 0u);
  CHECK_EQ(f.missed(Miss::kPersistent), 1u);
  f.engine.end_iteration();
  CHECK(f.release(Fixture::base(1)));
  CHECK_EQ(f.allocate(200), Fixture::base(1) + 299);
  CHECK_EQ(f.engine.statistics().regions.live, 200);
}

TEST(a_varying_request_of_the_opening_takes_what_it_needs) {
  Fixture f;
  PlannedRequest row = opening(300, 0);
  row.varying = true;
  serve_with_opening(f, {row, slot(10, 2, 0)});
  CHECK_EQ(f.allocate(120), Fixture::base(1));
  CHECK_EQ(f.engine.statistics().regions.live, 120);
  CHECK_EQ(f.allocate(10), Fixture::base(0));
}

TEST(without_its_region_the_opening_goes_to_the_framework) {
  Fixture f;
  f.serve(kOpens);
  f.allocate(100);
  CHECK_EQ(f.allocate(300), 0u);
  CHECK_EQ(f.missed(Miss::kPersistent), 1u);
  f.engine.add_opening_region(f.range(1, 600));  // room for one of them only
  CHECK_EQ(f.allocate(200), 0u);
  f.release(Fixture::base(0));
  f.engine.end_iteration();
  f.allocate(100);
  CHECK_EQ(f.allocate(300), Fixture::base(1));
  CHECK_EQ(f.allocate(200), 0u);
  CHECK_EQ(f.missed(Miss::kPersistent), 3u);
}

TEST(a_plan_with_a_place_for_good_outside_of_the_region_is_refused) {
  Fixture f;
  f.engine.add_opening_region(f.range(1, 711));
  f.attach(0);
  CHECK_THROWS(f.add(kOpens), std::invalid_argument);
  f.engine.close_opening_region();
  CHECK_EQ(f.returned[1], 1);
  CHECK_EQ(f.add(kOpens), 0u);  // its region may come later
}

TEST(an_arena_is_not_refused_for_an_opening_that_came_too_small) {
  Fixture f;
  f.serve(kOpens);
  f.engine.add_opening_region(f.range(1, 600));
  f.attach(2);
  f.allocate(100);
  CHECK_EQ(f.allocate(300), Fixture::base(1));
  CHECK_EQ(f.allocate(200), 0u);
}

TEST(malformed_places_for_good_are_refused) {
  Fixture f;
  f.attach(0);
  PlannedRequest twice = opening(100, 0);
  twice.alternate = 0;
  CHECK_THROWS(f.add({twice}), std::invalid_argument);
  CHECK_THROWS(f.add({opening(100, kLargestRequest + 1)}), std::invalid_argument);
  CHECK_THROWS(f.engine.add_plan({opening(100, 100)}, kStreams, 10'000, 64), std::invalid_argument);
  CHECK_EQ(f.add({opening(100, kLargestRequest)}), 0u);
}

TEST(a_region_closed_over_living_blocks_goes_back_once_with_the_last) {
  Fixture f;
  serve_with_opening(f, kOpens);
  f.allocate(100);
  f.allocate(300);
  f.allocate(200);
  f.engine.close_opening_region();
  f.engine.close_opening_region();
  CHECK_EQ(f.returned[1], 0);
  CHECK(f.owns(Fixture::base(1) + 999));
  CHECK(f.release(Fixture::base(1)));
  f.engine.add_opening_region(f.range(2, 1000));
  CHECK_EQ(f.engine.statistics().region_bytes, 2000);
  f.release(Fixture::base(0));
  f.engine.end_iteration();
  f.allocate(100);
  CHECK_EQ(f.allocate(300), Fixture::base(2));
  CHECK_EQ(f.returned[1], 0);
  CHECK(f.release(Fixture::base(1) + 512));
  CHECK_EQ(f.returned[1], 1);
  CHECK(!f.release(Fixture::base(1) + 512));
  CHECK(!f.owns(Fixture::base(1)));
  CHECK_EQ(f.engine.statistics().region_bytes, 1000);
  CHECK_EQ(f.engine.statistics().regions.live, 300);
  CHECK_EQ(f.returned[2], 0);
}

TEST(long_lived_blocks_keep_no_arena) {
  Fixture f;
  serve_with_opening(f, kOpens);
  const std::uint32_t moved = f.engine.add_region(f.range(2, 1000));
  f.release(f.allocate(100));
  const std::uintptr_t block = f.allocate(300);
  CHECK_EQ(f.engine.place_in_region(moved, 64, 200), Fixture::base(2) + 64);
  f.engine.remove_plans();
  f.engine.detach_arena();
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.engine.statistics().regions.live, 500);
  CHECK(f.owns(block));
  f.engine.close_opening_region();
  f.engine.close_region(moved);
  CHECK(f.release(block));
  CHECK(f.release(Fixture::base(2) + 64));
  CHECK_EQ(f.returned[1], 1);
  CHECK_EQ(f.returned[2], 1);
  CHECK_EQ(f.engine.statistics().regions.live, 0);
}

TEST(a_place_that_the_session_asks_for_may_be_refused) {
  Fixture f;
  const std::uint32_t region = f.engine.add_region(f.range(1, 1000));
  CHECK_EQ(f.engine.place_in_region(region, 0, 600), Fixture::base(1));
  CHECK_EQ(f.engine.place_in_region(region, 599, 10), 0u);
  CHECK_EQ(f.engine.place_in_region(region, 600, 401), 0u);
  CHECK_EQ(f.engine.place_in_region(region + 1, 0, 10), 0u);
  CHECK_EQ(f.engine.place_in_region(region, 600, 0), 0u);
  CHECK_EQ(f.engine.statistics().regions.live, 600);
  {
    const FailingAllocation failing(0);
    CHECK_THROWS(f.engine.place_in_region(region, 600, 400), std::bad_alloc);
  }
  CHECK_EQ(f.engine.statistics().regions.live, 600);
  CHECK_EQ(f.engine.place_in_region(region, 600, 400), Fixture::base(1) + 600);
  f.engine.close_region(region);
  CHECK_EQ(f.engine.place_in_region(region, 600, 400), 0u);
  CHECK_EQ(f.engine.statistics().regions.peak, 1000);
}

TEST(a_region_is_added_wholly_or_not_at_all) {
  Fixture f;
  int failures = 0;
  for (int after = 0;; ++after) {
    try {
      const FailingAllocation failing(after);
      f.engine.add_opening_region(f.range(1, 1000));
      break;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    CHECK_EQ(f.engine.statistics().region_bytes, 0);
    CHECK(!f.owns(Fixture::base(1)));
  }
  CHECK_EQ(failures, 2);
  CHECK_EQ(f.engine.statistics().region_bytes, 1000);
  CHECK_THROWS(f.engine.add_opening_region(f.range(2)), std::invalid_argument);
  CHECK_EQ(f.returned[2], 0);
}

TEST(an_opening_without_memory_for_its_note_goes_to_the_framework) {
  Fixture f;
  serve_with_opening(f, kOpens);
  f.release(f.allocate(100));
  {
    const FailingAllocation failing(0);
    CHECK_EQ(f.allocate(300), 0u);
    CHECK(failing.happened());
  }
  CHECK_EQ(f.missed(Miss::kPersistent), 1u);
  CHECK_EQ(f.engine.statistics().regions.live, 0);
  CHECK_EQ(f.allocate(200), Fixture::base(1) + 512);
  f.engine.end_iteration();
  f.release(f.allocate(100));
  CHECK_EQ(f.allocate(300), Fixture::base(1));
}

TEST(a_block_in_a_region_is_recorded_like_any_other) {
  Fixture f;
  serve_with_opening(f, kOpens);
  f.engine.start_recording();
  f.allocate(100);
  const std::uintptr_t block = f.allocate(300);
  CHECK(f.release(block));
  const std::vector<Event> events = f.engine.events(0);
  CHECK_EQ(events.size(), 3u);
  CHECK_EQ(events.at(1).bytes, 300);
  CHECK(events.at(2).kind == Event::kFree);
  CHECK_EQ(events.at(2).block, 1u);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
