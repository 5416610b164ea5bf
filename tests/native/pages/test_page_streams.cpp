// Tests of pages that move between streams: the order of streams, and their waits.

#include "check.hpp"
#include "pages/space.hpp"
#include "pages_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;
using pages::Address;
using pages::PageStatistics;
using pages::Space;

TEST(a_page_that_work_still_uses_is_lent_in_the_order_of_its_stream) {
  PagesFixture f(4);
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(1), 0);
  const Address b = space.allocate(f.pages(1), 0);
  const Address c = space.allocate(f.pages(1), 0);
  f.device.fill(0, {a, 512}, 1);
  f.device.fill(0, {c, 512}, 1);
  f.device.check(0, {c, 512}, 1);
  space.deallocate(a);
  space.deallocate(c);
  const Address d = space.allocate(f.pages(3), 0);  // behind b: pages of c and a, and a new page
  CHECK(d != 0);
  CHECK(b != 0);
  f.device.fill(0, {d, f.pages(3)}, 2);
  const PageStatistics now = space.statistics();
  CHECK_EQ(now.lends, 1u);
  CHECK_EQ(now.unmaps + now.waits, 0u);
  CHECK_EQ(now.stale, 1u);
  f.device.synchronize();
}

TEST(another_stream_waits_for_the_last_user) {
  PagesFixture f(2);
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(2), 0);
  f.device.fill(0, {a, f.pages(2)}, 1);
  f.device.check(0, {a, f.pages(2)}, 1);
  space.deallocate(a);
  const Address b = space.allocate(f.pages(2), 1);
  CHECK(b != 0);
  CHECK(b != a);
  CHECK_EQ(space.statistics().waits, 1u);
  f.device.fill(1, {b, f.pages(2)}, 2);
  CHECK(!f.device.step(1));
  f.device.synchronize();
}

TEST(no_stream_waits_if_other_pages_are_available) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  space.deallocate(space.allocate(f.pages(2), 0));
  f.device.synchronize();
  const Address a = space.allocate(100, 0);
  f.device.fill(0, {a, 512}, 1);
  f.device.order(0, 3);
  f.device.check(3, {a, 512}, 1);
  CHECK(space.use_block(a, 3));
  space.deallocate(a);
  const Address b = space.allocate(100, 0);
  CHECK(b != a);
  CHECK(f.device.page_at(b) != f.device.page_at(a));
  CHECK_EQ(space.statistics().waits, 0u);
  f.device.synchronize();
  CHECK_EQ(space.allocate(100, 0), a);  // the work of stream 3 is done
  CHECK_EQ(space.statistics().held, f.pages(2));
}

TEST(a_block_that_would_occupy_more_pages_than_ever_waits_for_others) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  space.deallocate(space.allocate(f.pages(2), 0));
  f.device.synchronize();
  space.forget_peak();
  for (int time = 0; time < 7; ++time) {  // eight blocks fill a page
    const Address gone = space.allocate(100, 0);
    CHECK(space.allocate(100, 0) != 0);  // keeps the page for good
    f.device.fill(0, {gone, 512}, 1);
    f.device.order(0, 3);
    f.device.check(3, {gone, 512}, 1);
    CHECK(space.use_block(gone, 3));
    space.deallocate(gone);
  }
  CHECK_EQ(space.statistics().occupied, f.pages(1));
  f.device.synchronize();
}

TEST(a_block_waits_for_streams_that_used_its_predecessor) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(100, 0);
  const Address beside = space.allocate(100, 0);
  CHECK_EQ(f.device.page_at(a), f.device.page_at(beside));
  f.device.fill(0, {a, 512}, 1);
  f.device.order(0, 3);
  f.device.check(3, {a, 512}, 1);
  CHECK(space.use_block(a, 3));
  space.deallocate(a);
  const Address b = space.allocate(100, 0);
  CHECK_EQ(b, a);
  CHECK_EQ(space.statistics().waits, 1u);
  f.device.fill(0, {b, 512}, 2);
  while (f.device.step(0)) {
  }
  CHECK_EQ(f.device.queued(0), 2u);  // the wait, and the work behind it
  f.device.synchronize();
  CHECK(!space.use_block(12345, 3));
  CHECK(!space.deallocate(12345));
}

TEST(without_aliases_a_page_is_taken_once_its_last_use_is_completed) {
  PagesFixture f(4);
  f.properties.aliases = false;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(2), 0);
  space.allocate(f.pages(2), 0);
  f.device.fill(0, {a, 512}, 1);
  space.deallocate(a);
  CHECK_EQ(space.allocate(f.pages(2), 1), 0u);
  f.device.synchronize();
  CHECK(space.allocate(f.pages(2), 1) != 0);
  CHECK_EQ(f.device.most_mappings, 1);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
