// Tests of memory statistics: peaks that include the framework's allocator, and failed requests.

#include <vector>

#include "check.hpp"
#include "engine_fixture.hpp"
#include "pages/space.hpp"
#include "pages_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;
using pages::Address;
using pages::Meter;
using pages::Sleep;
using pages::Space;
using pages::Usage;

namespace {

constexpr Bytes kBlock = 1024;

void check_usage(const Usage& usage, Bytes bytes, Bytes blocks, Bytes pages) {
  CHECK_EQ(usage.bytes, bytes);
  CHECK_EQ(usage.blocks, blocks);
  CHECK_EQ(usage.pages, pages);
}

struct Reading {
  explicit Reading(Space& space)
      : all(space.statistics()), now(space.meter().now()), peak(space.meter().peak()) {}

  pages::PageStatistics all;
  Usage now, peak;
};

void check_same(const Reading& one, const Reading& other) {
  check_usage(one.now, other.now.bytes, other.now.blocks, other.now.pages);
  check_usage(one.peak, other.peak.bytes, other.peak.blocks, other.peak.pages);
  CHECK_EQ(one.all.allocations, other.all.allocations);
  CHECK_EQ(one.all.allocated, other.all.allocated);
  CHECK_EQ(one.all.creates, other.all.creates);
  CHECK_EQ(one.all.releases, other.all.releases);
  CHECK_EQ(one.all.peak_held, other.all.peak_held);
}

}  // namespace

TEST(a_peak_is_of_both_allocators_at_one_time) {
  Meter meter;
  meter.pages_change(kBlock);
  meter.confirm({.bytes = 10 * kBlock, .blocks = 1, .pages = 20 * kBlock});
  meter.allocated(kBlock);
  CHECK(*meter.unconfirmed() != 0);
  // The framework has freed its block meanwhile.
  meter.confirm({.bytes = 0, .blocks = 0, .pages = 20 * kBlock});
  CHECK_EQ(*meter.unconfirmed(), 0u);
  check_usage(meter.peak(), 10 * kBlock, 1, 21 * kBlock);
  meter.freed(kBlock);
  meter.confirm({.bytes = 10 * kBlock, .blocks = 1, .pages = 20 * kBlock});
  check_usage(meter.peak(), 10 * kBlock, 1, 21 * kBlock);
}

TEST(a_peak_that_is_over_when_it_is_confirmed_counts) {
  Meter meter;
  meter.confirm({.bytes = kBlock, .blocks = 1, .pages = kBlock});
  meter.allocated(3 * kBlock);
  meter.freed(3 * kBlock);
  meter.confirm({.bytes = kBlock, .blocks = 1, .pages = kBlock});
  check_usage(meter.peak(), 4 * kBlock, 2, kBlock);
}

TEST(without_a_framework_beneath_there_is_nothing_to_confirm) {
  Meter meter;
  meter.allocated(kBlock - 1);
  meter.allocated(1);
  check_usage(meter.peak(), kBlock + Meter::kGranule, 2, 0);
  CHECK_EQ(*meter.unconfirmed(), 0u);
}

TEST(while_there_are_no_pages_the_framework_is_not_asked) {
  Meter meter;
  CHECK(!meter.beneath_grew());
  CHECK_EQ(*meter.unconfirmed(), 0u);
  meter.pages_change(kBlock);
  CHECK(*meter.unconfirmed() != 0);
  CHECK(meter.beneath_grew());
}

TEST(a_peak_begins_anew_with_what_is_there) {
  Meter meter;
  meter.pages_change(4 * kBlock);
  meter.allocated(kBlock);
  meter.allocated(kBlock);
  meter.freed(kBlock);
  meter.confirm({.bytes = kBlock, .blocks = 1, .pages = kBlock});
  meter.reset_peak();
  check_usage(meter.peak(), 2 * kBlock, 2, 5 * kBlock);
}

TEST(a_request_that_fails_changes_no_statistic) {
  PagesFixture f(10);
  Space space(f.device, f.properties, f.heuristics);
  const Address kept = space.allocate(f.pages(3), 0);
  const Reading before(space);
  CHECK_EQ(space.allocate(f.pages(20), 0), 0u);
  check_same(Reading(space), before);
  CHECK(space.statistics().held > f.pages(3));
  f.device.synchronize();
  space.give_back(f.pages(20));
  check_same(Reading(space), before);
  CHECK_EQ(space.statistics().held, f.pages(3));
  CHECK(space.deallocate(kept));
}

TEST(a_slot_that_is_refused_changes_no_statistic) {
  PagesFixture f(10);
  Space space(f.device, f.properties, f.heuristics);
  Engine engine;
  const Bytes slots = 3;
  const Bytes page = f.pages(1);
  std::vector<PlannedRequest> rows;
  for (Bytes at = 0; at < slots; ++at) rows.push_back(slot(page, slots, at * page));
  engine.add_arena(kStream, 0, engine.reserve_arena(space, slots * page, 0));
  static constexpr std::uint64_t kStreamNumbers[] = {kStream};
  engine.add_plan(rows, {kStreamNumbers, 1}, slots * page, 1);
  engine.start_serving();
  void* const first = engine.allocate(static_cast<std::size_t>(page), kStream);
  const Reading before(space);
  const std::uint64_t slots_before = engine.statistics().paged_slots;
  f.device.refuse_create = true;
  CHECK(engine.allocate(static_cast<std::size_t>(page), kStream) == nullptr);
  check_same(Reading(space), before);
  CHECK_EQ(engine.statistics().paged_slots, slots_before);
  f.device.refuse_create = false;
  CHECK(engine.release(first));
  check_usage(space.meter().now(), 0, 0, page);
  CHECK_EQ(engine.statistics().paged_slots, 1u);
  CHECK_EQ(engine.statistics().paged_slot_bytes, static_cast<std::uint64_t>(page));
  engine.detach_arena();
}

TEST(sleeping_bytes_are_not_counted_until_they_wake) {
  PagesFixture f(10);
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(3), 0);
  const Address b = space.allocate(f.pages(2), 0);
  std::vector<pages::Extent> runs;
  const std::vector<pages::Extent> blocks = {{a, f.pages(3)}, {b, f.pages(2)}};
  const Sleep sleep = space.prepare_sleep(blocks, runs);
  f.device.synchronize();
  CHECK_EQ(space.begin_sleep(sleep), f.pages(5));
  check_usage(space.meter().now(), 0, 2, 0);
  const Address other = space.allocate(f.pages(6), 0);
  CHECK_EQ(space.meter().peak().bytes, f.pages(6));
  CHECK(space.deallocate(b));  // freed while it sleeps
  check_usage(space.meter().now(), f.pages(6), 2, f.pages(6));
  CHECK(space.deallocate(other));
  runs.clear();
  CHECK(space.wake(sleep, runs));
  space.end_sleep(sleep);
  check_usage(space.meter().now(), f.pages(3), 1, f.pages(6));
  CHECK_EQ(space.meter().living(), f.pages(3));
  CHECK(space.deallocate(a));
  check_usage(space.meter().now(), 0, 0, f.pages(6));
}

int main(int argc, char** argv) {
  return run_all(argc, argv);
}
