// Tests of pages on a full card, at a limit, when the device refuses, and without host memory.

#include <vector>

#include "check.hpp"
#include "failing_new.hpp"
#include "pages/space.hpp"
#include "pages_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;
using pages::Address;
using pages::Space;

TEST(a_full_card_takes_what_idles_and_refuses_the_rest) {
  PagesFixture f(10);
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(5), 0);
  space.allocate(f.pages(5), 0);
  CHECK_EQ(space.allocate(f.pages(1), 0), 0u);
  space.deallocate(a);
  CHECK_EQ(space.allocate(f.pages(6), 0), 0u);
  CHECK(space.allocate(f.pages(5), 2) != 0);
  CHECK_EQ(space.statistics().occupied, f.pages(10));
  CHECK_EQ(space.statistics().live, f.pages(10));
}

TEST(a_device_that_refuses_leaves_nothing_behind) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  f.device.refuse_reserve = true;
  CHECK_EQ(space.allocate(f.pages(3), 0), 0u);
  f.device.refuse_reserve = false;
  f.device.refuse_map = true;
  CHECK_EQ(space.allocate(f.pages(3), 0), 0u);
  CHECK_EQ(space.statistics().occupied, 0);
  f.device.refuse_map = false;
  CHECK(space.allocate(f.pages(3), 0) != 0);
  CHECK_EQ(space.statistics().held, f.pages(3));
  CHECK_EQ(space.allocate(-1, 0), 0u);
  CHECK_EQ(space.allocate(Bytes{1} << 60, 0), 0u);
  CHECK_EQ(space.allocate(1, pages::kMostStreams), 0u);
}

TEST(pages_that_the_device_refuses_to_map_go_back_to_it) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(3), 0);
  for (const bool grant : {false, true}) {
    (grant ? f.device.refuse_grant : f.device.refuse_map) = true;
    for (int times = 0; times < 4; ++times) CHECK_EQ(space.allocate(f.pages(5), 0), 0u);
    (grant ? f.device.refuse_grant : f.device.refuse_map) = false;
    CHECK_EQ(space.statistics().held, f.pages(3));
    CHECK_EQ(f.device.pages_created(), 3u);
  }
  const auto now = space.statistics();
  CHECK_EQ(now.creates - now.releases, 3u);
  CHECK_EQ(now.maps - now.unmaps, 3u);
  CHECK_EQ(now.grants, 1u);
  CHECK(space.deallocate(a));
  CHECK(space.allocate(f.pages(8), 0) != 0);
  CHECK_EQ(space.statistics().occupied, f.pages(8));
}

TEST(idle_pages_go_back_when_nothing_uses_them) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(4), 0);
  const Address b = space.allocate(f.pages(4), 0);
  f.device.fill(0, {a, 512}, 1);
  space.deallocate(a);
  CHECK_EQ(space.give_back(f.pages(4)), 0);
  f.device.synchronize();
  CHECK_EQ(space.give_back(f.pages(3)), f.pages(3));
  CHECK_EQ(space.give_back(f.pages(100)), f.pages(1));
  CHECK_EQ(f.device.pages_created(), 4u);
  CHECK(space.deallocate(b));
}

TEST(beyond_its_limit_nothing_is_held) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(6), 0);
  space.deallocate(a);
  space.give_back(0);  // records events
  f.device.synchronize();
  space.limit(f.pages(4) + 1);
  CHECK_EQ(space.statistics().held, f.pages(4));
  CHECK_EQ(space.allocate(f.pages(5), 0), 0u);
  CHECK(space.allocate(f.pages(4), 0) != 0);
}

TEST(pages_of_the_largest_card_are_not_too_many) {
  const pages::DeviceProperties properties;
  CHECK(static_cast<Bytes>(properties.most_pages) >= (Bytes{139} << 30) / properties.page);
  PagesFixture f;
  f.properties.most_pages = 7;
  Space space(f.device, f.properties, f.heuristics);
  CHECK(space.allocate(f.pages(7), 0) != 0);
  CHECK_EQ(space.allocate(f.pages(1), 0), 0u);
}

TEST(exhausted_host_memory_loses_nothing) {
  int after = 0;
  for (bool failed = true; failed; ++after) {  // until each allocation has failed once
    PretendedDevice device;
    Space space(device);
    Owner owner;
    std::vector<Address> blocks;
    blocks.reserve(100);
    {
      const FailingAllocation failing(after);
      for (Bytes size : {600, 3 << 20, 5 << 20, 600, 9 << 20, 7 << 20}) {
        const Address block = space.allocate(size, 0);
        if (block != 0) blocks.push_back(block);
        if (blocks.size() != 2) continue;
        space.deallocate(blocks.front());
        blocks.erase(blocks.begin());
      }
      (void)space.reserve_range(1 << 22, 0, owner);
      failed = failing.happened();
    }
    for (Address block : blocks) CHECK(space.deallocate(block));
    CHECK_EQ(space.statistics().live, 0);
    CHECK_EQ(space.statistics().occupied, 0);
    space.give_back(Bytes{1} << 40);
    CHECK_EQ(device.created, device.released);
    CHECK(space.allocate(1 << 24, 0) != 0);
  }
  CHECK(after > 60);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
