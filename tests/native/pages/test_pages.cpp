// Tests of pages under the blocks of windows, one rule at a time. fuzz_pages.cpp tests all rules at
// once.

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "check.hpp"
#include "pages/space.hpp"
#include "pages_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;
using pages::Address;
using pages::PageStatistics;
using pages::Space;

TEST(a_program_that_repeats_makes_no_calls) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const auto calls = [&] {
    const PageStatistics now = space.statistics();
    return now.maps + now.creates + now.unmaps + now.waits + now.events;
  };
  std::uint64_t first = 0;
  for (int iteration = 0; iteration < 5; ++iteration) {
    std::vector<Address> blocks;
    for (Bytes size : {3, 1, 7, 2}) blocks.push_back(space.allocate(f.pages(size) + 512, 0));
    for (Bytes size : {100, 2000, 700}) blocks.push_back(space.allocate(size, 0));
    for (Address block : blocks) CHECK(space.deallocate(block));
    if (iteration == 0) first = calls();
  }
  CHECK(space.statistics().maps > 0);
  CHECK_EQ(calls(), first);
  CHECK_EQ(space.statistics().live, 0);
}

TEST(a_program_that_repeats_keeps_its_aliases) {
  // Large blocks do not fit the gaps of small blocks, so pages get other addresses in every
  // iteration.
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  std::uint64_t maps = 0;
  for (int iteration = 0; iteration < 6; ++iteration) {
    std::vector<Address> few;
    for (int at = 0; at < 10; ++at) few.push_back(space.allocate(f.pages(2), 0));
    for (std::size_t at = 0; at < 10; at += 2) space.deallocate(few[at]);
    const Address large = space.allocate(f.pages(10), 0);
    space.deallocate(large);
    for (std::size_t at = 1; at < 10; at += 2) space.deallocate(few[at]);
    if (iteration == 1) maps = space.statistics().maps;
  }
  const PageStatistics now = space.statistics();
  CHECK_EQ(now.held, f.pages(20));
  CHECK_EQ(now.maps, maps);
}

TEST(idle_pages_are_taken_before_more_are_created) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(4), 0);
  const Address b = space.allocate(f.pages(4), 0);
  space.deallocate(a);
  const Address large = space.allocate(f.pages(4) + 1, 0);
  CHECK(large > b);
  CHECK_EQ(space.statistics().held, f.pages(9));
  CHECK_EQ(space.statistics().taken, 4u);
}

// Optimizer state is allocated after activations were freed. In their gaps, each of its blocks
// would keep a page of its own.
TEST(long_lived_blocks_lie_together) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Bytes half = f.pages(1) / 2;
  std::vector<Address> activations, gradients;
  for (int layer = 0; layer < 8; ++layer) {
    activations.push_back(space.allocate(half, 0));
    gradients.push_back(space.allocate(half, 0));
  }
  for (const Address block : activations) space.deallocate(block);
  space.expect_lasting(true);
  const Address state = space.allocate(half, 0);
  for (Address at = 1; at < 8; ++at) {
    CHECK_EQ(space.allocate(half, 0), state + at * static_cast<Address>(half));
  }
  space.expect_lasting(false);
  CHECK_EQ(space.allocate(half, 0), activations[0]);
  for (const Address block : gradients) space.deallocate(block);
  space.give_back(f.pages(1000));
  f.device.synchronize();
  space.give_back(f.pages(1000));
  CHECK_EQ(space.statistics().held, f.pages(4 + 1));
}

TEST(below_the_highest_occupancy_pages_are_created) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(4), 0);
  space.allocate(f.pages(2), 0);
  const Address c = space.allocate(f.pages(2), 0);
  space.deallocate(a);
  space.deallocate(c);
  space.give_back(0);  // records
  f.device.synchronize();
  CHECK_EQ(space.give_back(f.pages(2)), f.pages(2));
  CHECK_EQ(space.allocate(f.pages(5), 0), c);  // two mapped pages, two new pages, one page of a
  CHECK_EQ(space.statistics().taken, 1u);
  CHECK_EQ(space.statistics().held, f.pages(8));
}

TEST(an_address_whose_mapping_is_in_the_way_is_not_handed_out) {
  PagesFixture f(4);
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(1), 0);
  const Address b = space.allocate(f.pages(1), 0);
  space.deallocate(a);
  const Address large = space.allocate(f.pages(2), 0);  // a's page, which is lent, and a new page
  CHECK(large > b);
  f.device.fill(0, {a, 512}, 1);  // as if submitted before the free
  const Address c = space.allocate(f.pages(1), 0);
  CHECK(c != a);
  CHECK(c != 0);
  f.device.synchronize();
  space.deallocate(b);
  space.deallocate(c);
  CHECK_EQ(space.allocate(f.pages(2), 0), a);  // the address may be mapped again
}

TEST(a_gap_whose_pages_are_there_is_taken_before_a_better_fit) {
  PagesFixture f(8);
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(1), 0);
  const Address b = space.allocate(f.pages(1), 0);
  const Address c = space.allocate(f.pages(2), 0);
  const Address d = space.allocate(f.pages(1), 0);
  space.deallocate(a);
  CHECK(space.allocate(f.pages(3), 0) > d);  // with a's page
  space.deallocate(c);
  const auto maps = space.statistics().maps;
  CHECK_EQ(space.allocate(f.pages(1), 0), c);
  CHECK_EQ(space.statistics().maps, maps);
  CHECK(b != 0);
}

TEST(memory_shared_with_a_process_stays_while_it_is_in_use) {
  PagesFixture f(4);
  Space space(f.device, f.properties, f.heuristics);
  const auto shared = [&] {
    std::size_t count = 0;
    space.for_each_shared([&](pages::Handle) { ++count; });
    return count;
  };
  const Address a = space.allocate(f.pages(1), 0);
  const Address b = space.allocate(f.pages(2), 0);
  std::vector<pages::Handle> pages;
  CHECK_EQ(space.share({b + 512, f.pages(1)}, pages), b);  // begins inside a page
  CHECK_EQ(pages.size(), 2u);
  CHECK_EQ(shared(), 2u);
  std::vector<pages::Handle> same;
  CHECK_EQ(space.share({b, f.pages(2)}, same), b);
  CHECK(same == pages);
  space.deallocate(a);
  CHECK_EQ(space.allocate(f.pages(3), 1), 0u);  // only two of four pages are available
  f.device.fill(0, {b, f.pages(2)}, 7);
  space.deallocate(b);
  CHECK_EQ(shared(), 0u);
  (void)space.give_back(f.pages(4));  // records events
  f.device.synchronize();
  (void)space.give_back(f.pages(4));
  CHECK_EQ(space.statistics().held, 0);
  CHECK(space.allocate(f.pages(4), 1) != 0);
}

TEST(where_nothing_lives_nothing_is_shared) {
  PagesFixture f(4);
  Space space(f.device, f.properties, f.heuristics);
  std::vector<pages::Handle> pages;
  CHECK_EQ(space.share({Address{1} << 20, 512}, pages), 0u);
  const Address a = space.allocate(f.pages(1), 0);
  CHECK_EQ(space.share({a, f.pages(2)}, pages), 0u);
  space.deallocate(a);
  CHECK_EQ(space.share({a, 512}, pages), 0u);
  CHECK(pages.empty());
}

TEST(during_a_capture_what_is_there_is_served) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(3), 0);
  space.deallocate(a);
  f.device.is_capturing = true;  // any call of the device ends the program
  CHECK_EQ(space.allocate(f.pages(3), 0), a);
  CHECK_EQ(space.allocate(f.pages(3), 0), 0u);
  CHECK_EQ(space.give_back(f.pages(3)), 0);
  CHECK(space.deallocate(a));
  f.device.is_capturing = false;
}

TEST(after_a_capture_idle_pages_are_taken_before_new_ones_are_created) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  space.deallocate(space.allocate(f.pages(4), 0));
  CHECK_EQ(space.give_back(f.pages(4)), 0);  // records an event behind the last use
  f.device.synchronize();
  CHECK_EQ(space.give_back(f.pages(4)), f.pages(4));
  space.note_capture();  // the graph's pool may have taken the four pages
  space.deallocate(space.allocate(f.pages(2), 0));
  space.deallocate(space.allocate(f.pages(2), 1));
  CHECK_EQ(space.statistics().held, f.pages(2));
}

TEST(pinned_pages_stay_until_they_are_given_back) {
  PagesFixture f(4);
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(2), 0);
  const Address b = space.allocate(f.pages(1), 0);
  const auto page = f.device.page_at(a);
  const auto other = f.device.page_at(b);
  CHECK(space.pin({a, f.pages(1)}));
  CHECK(space.pin({a, f.pages(1)}));
  CHECK(space.pin({b, f.pages(1)}));
  CHECK(!space.pin({a + (Address{1} << 45), 1}));
  space.deallocate(a);
  CHECK_EQ(space.allocate(f.pages(3), 1), 0u);
  CHECK(space.allocate(f.pages(2), 1) != 0);
  f.device.synchronize();
  CHECK_EQ(f.device.page_at(a), page);
  CHECK_EQ(space.give_back(f.pages(4)), f.pages(1));
  CHECK_EQ(f.device.page_at(b), other);  // a block lives there
  CHECK(space.allocate(f.pages(1), 1) != 0);
}

TEST(access_is_granted_again_where_pages_are_mapped) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  (void)space.allocate(f.pages(2), 0);
  const Address hole = space.allocate(f.pages(1), 0);
  (void)space.allocate(f.pages(2), 0);
  space.deallocate(hole);
  space.give_back(0);  // records events
  f.device.synchronize();
  CHECK_EQ(space.give_back(f.pages(1)), f.pages(1));
  const std::size_t before = f.device.grants;
  space.grant_again();
  CHECK_EQ(f.device.grants, before + 2);
}

TEST(access_is_granted_again_while_another_thread_allocates) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  std::atomic<bool> ended{false};
  std::thread granting([&] {
    while (!ended) space.grant_again();
  });
  for (int count = 0; count < 900; ++count) CHECK(space.allocate(f.pages(1), 0) != 0);
  ended = true;
  granting.join();
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
