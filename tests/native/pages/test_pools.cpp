// Tests of windows of pools, with which pages serve a torch.cuda.MemPool.

#include <vector>

#include "check.hpp"
#include "pages/space.hpp"
#include "pages_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;
using pages::Address;
using pages::Extent;
using pages::PoolNumber;
using pages::Space;
using pages::Stream;

namespace {

std::vector<PoolNumber> pools_of_runs(Space& space) {
  std::vector<PoolNumber> all;
  space.for_each_run([&](Extent, Stream, PoolNumber pool) { all.push_back(pool); });
  return all;
}

}  // namespace

TEST(idle_pages_of_a_live_pool_serve_others_and_the_reverse) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address in_pool = space.allocate(f.pages(4), 0, 1);
  const Address kept = space.allocate(f.pages(1), 0, 1);
  CHECK(space.deallocate(in_pool));
  const Address outside = space.allocate(f.pages(4), 0);
  CHECK(outside != 0 && kept != 0);
  CHECK_EQ(space.statistics().held, f.pages(5));
  CHECK(space.deallocate(outside));
  CHECK(space.allocate(f.pages(4), 0, 2) != 0);
  CHECK_EQ(space.statistics().held, f.pages(5));
}

TEST(blocks_of_two_pools_share_no_page) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const auto page_of = [&](Address block) { return block / static_cast<Address>(f.pages(1)); };
  const Address none = space.allocate(512, 0);
  const Address one = space.allocate(512, 0, 1);
  const Address other = space.allocate(512, 0, 2);
  CHECK(page_of(one) != page_of(other));
  CHECK(page_of(one) != page_of(none));
  CHECK_EQ(page_of(space.allocate(512, 0, 1)), page_of(one));
}

TEST(runs_have_the_number_of_their_pool) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  (void)space.allocate(f.pages(1), 0, 7);
  (void)space.allocate(f.pages(1), 0);
  const std::vector<PoolNumber> pools = pools_of_runs(space);
  CHECK_EQ(pools.size(), 2u);
  CHECK_EQ(pools[0] + pools[1], 7u);
}

TEST(idle_pages_of_a_pool_are_those_without_blocks) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address freed = space.allocate(f.pages(3), 0, 1);
  (void)space.allocate(f.pages(2), 0, 1);
  CHECK_EQ(space.idle_in(1), 0);
  CHECK(space.deallocate(freed));
  CHECK_EQ(space.idle_in(1), f.pages(3));
  CHECK_EQ(space.idle_in(2), 0);
}

TEST(a_later_pool_gets_the_addresses_of_a_closed_one_without_blocks) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address first = space.allocate(f.pages(1), 0, 1);
  space.close_pool(1);
  const Address second = space.allocate(f.pages(1), 0, 2);
  CHECK(second != 0 && second != first);  // a block of the first pool is still live
  CHECK(space.deallocate(first));
  CHECK_EQ(space.allocate(f.pages(1), 0, 3), first);
  for (const PoolNumber pool : pools_of_runs(space)) CHECK(pool == 2 || pool == 3);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
