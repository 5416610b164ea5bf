// Pages under the blocks of windows, one rule at a time; see fuzz_pages.cpp for all of them at
// once.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "failing_new.hpp"
#include "pages/space.hpp"
#include "pages_fixture.hpp"
#include "random.hpp"

using namespace pgmo;
using namespace pgmo::test;
using pages::Address;
using pages::Space;
using pages::Statistics;
using pages::Tuning;

TEST(a_program_that_repeats_makes_no_calls) {
  PagesFixture f;
  Space space(f.device, f.tuning);
  for (int iteration = 0; iteration < 5; ++iteration) {
    std::vector<Address> blocks;
    for (Bytes size : {3, 1, 7, 2}) blocks.push_back(space.allocate(f.pages(size) + 512, 0));
    for (Bytes size : {100, 2000, 700}) blocks.push_back(space.allocate(size, 0));
    for (Address block : blocks) CHECK(space.deallocate(block, 0));
    if (iteration == 0) {
      CHECK(space.statistics().maps > 0);
      space.reset_statistics();
    }
  }
  const Statistics now = space.statistics();
  CHECK_EQ(now.maps + now.creates + now.unmaps + now.waits + now.events, 0u);
  CHECK_EQ(now.live, 0);
}

TEST(a_program_that_repeats_keeps_its_aliases) {
  // Large blocks that do not fit where small ones were: pages change hands in every iteration.
  PagesFixture f;
  Space space(f.device, f.tuning);
  for (int iteration = 0; iteration < 6; ++iteration) {
    std::vector<Address> few;
    for (int at = 0; at < 10; ++at) few.push_back(space.allocate(f.pages(2), 0));
    for (std::size_t at = 0; at < 10; at += 2) space.deallocate(few[at], 0);
    const Address large = space.allocate(f.pages(10), 0);
    space.deallocate(large, 0);
    for (std::size_t at = 1; at < 10; at += 2) space.deallocate(few[at], 0);
    if (iteration == 1) space.reset_statistics();
  }
  const Statistics now = space.statistics();
  CHECK_EQ(now.held, f.pages(20));
  CHECK_EQ(now.maps, 0u);
}

TEST(idle_pages_are_taken_before_more_are_created) {
  PagesFixture f;
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(4), 0);
  const Address b = space.allocate(f.pages(4), 0);
  space.deallocate(a, 0);
  const Address large = space.allocate(f.pages(4) + 1, 0);
  CHECK(large > b);
  CHECK_EQ(space.statistics().held, f.pages(9));
  CHECK_EQ(space.statistics().taken, 4u);
}

TEST(below_the_highest_occupancy_and_slack_pages_are_created) {
  PagesFixture f;
  f.tuning.slack = 500;
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(4), 0);
  space.allocate(f.pages(4), 0);
  space.deallocate(a, 0);
  space.allocate(f.pages(5), 0);  // 9 occupied, up to 14 held
  CHECK_EQ(space.statistics().taken, 0u);
  CHECK_EQ(space.statistics().held, f.pages(13));
}

TEST(a_page_that_work_still_uses_is_lent_in_the_order_of_its_stream) {
  PagesFixture f(4);
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(1), 0);
  const Address b = space.allocate(f.pages(1), 0);
  const Address c = space.allocate(f.pages(1), 0);
  f.device.fill(0, {a, 512}, 1);
  f.device.fill(0, {c, 512}, 1);
  f.device.check(0, {c, 512}, 1);
  space.deallocate(a, 0);
  space.deallocate(c, 0);
  const Address d = space.allocate(f.pages(3), 0);  // behind b: c's own page, a's, and a new one
  CHECK(d != 0);
  CHECK(b != 0);
  f.device.fill(0, {d, f.pages(3)}, 2);
  const Statistics now = space.statistics();
  CHECK_EQ(now.lends, 1u);
  CHECK_EQ(now.unmaps + now.waits, 0u);
  CHECK_EQ(now.stale, 1u);
  f.device.synchronize();
}

TEST(an_address_whose_mapping_is_in_the_way_is_not_handed_out) {
  PagesFixture f(4);
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(1), 0);
  const Address b = space.allocate(f.pages(1), 0);
  space.deallocate(a, 0);
  const Address large = space.allocate(f.pages(2), 0);  // a's page, lent, and a new one
  CHECK(large > b);
  f.device.fill(0, {a, 512}, 1);  // as from before the free
  const Address c = space.allocate(f.pages(1), 0);
  CHECK(c != a);
  CHECK(c != 0);
  f.device.synchronize();
  space.deallocate(b, 0);
  space.deallocate(c, 0);
  CHECK_EQ(space.allocate(f.pages(2), 0), a);  // now it may be mapped anew
}

TEST(a_gap_whose_pages_are_there_is_taken_before_a_better_fit) {
  PagesFixture f(8);
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(1), 0);
  const Address b = space.allocate(f.pages(1), 0);
  const Address c = space.allocate(f.pages(2), 0);
  const Address d = space.allocate(f.pages(1), 0);
  space.deallocate(a, 0);
  CHECK(space.allocate(f.pages(3), 0) > d);  // with a's page
  space.deallocate(c, 0);
  const auto maps = space.statistics().maps;
  CHECK_EQ(space.allocate(f.pages(1), 0), c);
  CHECK_EQ(space.statistics().maps, maps);
  CHECK(b != 0);
}

TEST(what_another_process_has_stays_where_it_is) {
  PagesFixture f(4);
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(1), 0);
  const Address b = space.allocate(f.pages(2), 0);
  std::vector<pages::Handle> pages;
  CHECK_EQ(space.share({b + 512, f.pages(1)}, pages), b);  // not from the beginning of a page
  CHECK_EQ(pages.size(), 2u);
  f.device.fill(0, {b, f.pages(2)}, 7);
  space.deallocate(a, 0);
  space.deallocate(b, 0);
  CHECK_EQ(space.give_back(f.pages(4)), 0);
  f.device.synchronize();
  CHECK_EQ(space.give_back(f.pages(4)), f.pages(1));  // that of a
  CHECK_EQ(space.allocate(f.pages(3), 1), 0u);        // two of four are not to be had
  const Address other = space.allocate(f.pages(2), 1);
  CHECK(other != 0);
  f.device.check(0, {b, f.pages(2)}, 7);
  f.device.synchronize();
  space.deallocate(other, 1);
  CHECK_EQ(space.allocate(f.pages(3), 0), a);  // at their own addresses they are
  std::vector<pages::Handle> same;
  CHECK_EQ(space.share({b, f.pages(2)}, same), b);
  CHECK(same == pages);
}

TEST(where_nothing_lives_nothing_is_shared) {
  PagesFixture f(4);
  Space space(f.device, f.tuning);
  std::vector<pages::Handle> pages;
  CHECK_EQ(space.share({Address{1} << 20, 512}, pages), 0u);
  const Address a = space.allocate(f.pages(1), 0);
  CHECK_EQ(space.share({a, f.pages(2)}, pages), 0u);
  space.deallocate(a, 0);
  CHECK_EQ(space.share({a, 512}, pages), 0u);
  CHECK(pages.empty());
}

TEST(another_stream_waits_for_the_last_user) {
  PagesFixture f(2);
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(2), 0);
  f.device.fill(0, {a, f.pages(2)}, 1);
  f.device.check(0, {a, f.pages(2)}, 1);
  space.deallocate(a, 0);
  const Address b = space.allocate(f.pages(2), 1);
  CHECK(b != 0);
  CHECK(b != a);
  CHECK_EQ(space.statistics().waits, 1u);
  f.device.fill(1, {b, f.pages(2)}, 2);
  CHECK(!f.device.step(1));
  f.device.synchronize();
}

TEST(nobody_waits_for_others_where_there_are_other_pages) {
  PagesFixture f;
  f.tuning.slack = 1000;  // as many pages again as are used
  Space space(f.device, f.tuning);
  const Address a = space.allocate(100, 0);
  f.device.fill(0, {a, 512}, 1);
  f.device.order(0, 3);
  f.device.check(3, {a, 512}, 1);
  CHECK(space.use_block(a, 3));
  space.deallocate(a, 0);
  const Address b = space.allocate(100, 0);
  CHECK(b != a);
  CHECK(f.device.page_at(b) != f.device.page_at(a));
  CHECK_EQ(space.statistics().waits, 0u);
  f.device.synchronize();
  CHECK_EQ(space.allocate(100, 0), a);  // stream 3 is done
  CHECK_EQ(space.statistics().held, f.pages(2));
}

TEST(who_would_occupy_more_pages_than_ever_waits_for_others) {
  PagesFixture f;
  f.tuning.slack = 1000;
  Space space(f.device, f.tuning);
  for (int time = 0; time < 7; ++time) {  // eight blocks fill a page
    const Address gone = space.allocate(100, 0);
    CHECK(space.allocate(100, 0) != 0);  // keeps the page for good
    f.device.fill(0, {gone, 512}, 1);
    f.device.order(0, 3);
    f.device.check(3, {gone, 512}, 1);
    CHECK(space.use_block(gone, 3));
    space.deallocate(gone, 0);
  }
  CHECK_EQ(space.statistics().occupied, f.pages(1));
  f.device.synchronize();
}

TEST(who_follows_a_block_that_others_use_waits_for_them) {
  PagesFixture f;
  Space space(f.device, f.tuning);
  const Address a = space.allocate(100, 0);
  const Address beside = space.allocate(100, 0);
  CHECK_EQ(f.device.page_at(a), f.device.page_at(beside));
  f.device.fill(0, {a, 512}, 1);
  f.device.order(0, 3);
  f.device.check(3, {a, 512}, 1);
  CHECK(space.use_block(a, 3));
  space.deallocate(a, 0);
  const Address b = space.allocate(100, 0);
  CHECK_EQ(b, a);
  CHECK_EQ(space.statistics().waits, 1u);
  f.device.fill(0, {b, 512}, 2);
  while (f.device.step(0)) {
  }
  CHECK_EQ(f.device.queued(0), 2u);  // the wait, and what is behind it
  f.device.synchronize();
  CHECK(!space.use_block(12345, 3));
  CHECK(!space.deallocate(12345, 0));
}

TEST(without_aliases_a_page_is_taken_once_its_last_use_is_completed) {
  PagesFixture f(4);
  f.tuning.aliases = false;
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(2), 0);
  space.allocate(f.pages(2), 0);
  f.device.fill(0, {a, 512}, 1);
  space.deallocate(a, 0);
  CHECK_EQ(space.allocate(f.pages(2), 1), 0u);
  f.device.synchronize();
  CHECK(space.allocate(f.pages(2), 1) != 0);
  CHECK_EQ(f.device.most_mappings, 1);
}

TEST(a_full_card_takes_what_idles_and_refuses_the_rest) {
  PagesFixture f(10);
  f.tuning.slack = 1000;
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(5), 0);
  space.allocate(f.pages(5), 0);
  CHECK_EQ(space.allocate(f.pages(1), 0), 0u);
  space.deallocate(a, 0);
  CHECK_EQ(space.allocate(f.pages(6), 0), 0u);
  CHECK(space.allocate(f.pages(5), 2) != 0);
  CHECK_EQ(space.statistics().occupied, f.pages(10));
  CHECK_EQ(space.statistics().live, f.pages(10));
}

TEST(a_device_that_refuses_leaves_nothing_behind) {
  PagesFixture f;
  Space space(f.device, f.tuning);
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

TEST(during_a_capture_what_is_there_is_served) {
  PagesFixture f;
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(3), 0);
  space.deallocate(a, 0);
  f.device.is_capturing = true;  // any call ends the program
  CHECK_EQ(space.allocate(f.pages(3), 0), a);
  CHECK_EQ(space.allocate(f.pages(3), 0), 0u);
  CHECK_EQ(space.give_back(f.pages(3)), 0);
  CHECK(space.deallocate(a, 0));
  f.device.is_capturing = false;
}

TEST(idle_pages_go_back_when_nothing_uses_them) {
  PagesFixture f;
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(4), 0);
  const Address b = space.allocate(f.pages(4), 0);
  f.device.fill(0, {a, 512}, 1);
  space.deallocate(a, 0);
  CHECK_EQ(space.give_back(f.pages(4)), 0);
  f.device.synchronize();
  CHECK_EQ(space.give_back(f.pages(3)), f.pages(3));
  CHECK_EQ(space.give_back(f.pages(100)), f.pages(1));
  CHECK_EQ(f.device.pages_created(), 4u);
  CHECK(space.deallocate(b, 0));
}

TEST(beyond_its_limit_nothing_is_held) {
  PagesFixture f;
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(6), 0);
  space.deallocate(a, 0);
  space.give_back(0);  // records
  f.device.synchronize();
  space.limit(f.pages(4) + 1);
  CHECK_EQ(space.statistics().held, f.pages(4));
  CHECK_EQ(space.allocate(f.pages(5), 0), 0u);
  CHECK(space.allocate(f.pages(4), 0) != 0);
}

TEST(pinned_pages_stay) {
  PagesFixture f(4);
  Space space(f.device, f.tuning);
  const Address a = space.allocate(f.pages(2), 0);
  const auto page = f.device.page_at(a);
  CHECK(space.pin({a, f.pages(1)}));
  CHECK(space.pin({a, f.pages(1)}));
  CHECK(!space.pin({a + (Address{1} << 45), 1}));
  space.deallocate(a, 0);
  CHECK_EQ(space.allocate(f.pages(4), 1), 0u);
  CHECK(space.allocate(f.pages(3), 1) != 0);
  f.device.synchronize();
  CHECK_EQ(space.give_back(f.pages(4)), 0);
  CHECK_EQ(f.device.page_at(a), page);
}

TEST(pages_of_the_largest_card_are_not_too_many) {
  const Tuning tuning;
  CHECK(static_cast<Bytes>(tuning.most_pages) >= (Bytes{139} << 30) / tuning.page);
  PagesFixture f;
  f.tuning.most_pages = 7;
  Space space(f.device, f.tuning);
  CHECK(space.allocate(f.pages(7), 0) != 0);
  CHECK_EQ(space.allocate(f.pages(1), 0), 0u);
}

TEST(exhausted_host_memory_loses_nothing) {
  int after = 0;
  for (bool failed = true; failed; ++after) {  // until each allocation has failed once
    PretendedDevice device;
    Tuning tuning;
    tuning.slack = 0;
    Space space(device, tuning);
    Owner owner;
    std::vector<Address> blocks;
    blocks.reserve(100);
    {
      const FailingAllocation failing(after);
      for (Bytes size : {600, 3 << 20, 5 << 20, 600, 9 << 20, 7 << 20}) {
        const Address block = space.allocate(size, 0);
        if (block != 0) blocks.push_back(block);
        if (blocks.size() != 2) continue;
        space.deallocate(blocks.front(), 0);
        blocks.erase(blocks.begin());
      }
      (void)space.reserve_range(1 << 22, 0, owner);
      failed = failing.happened();
    }
    for (Address block : blocks) CHECK(space.deallocate(block, 0));
    CHECK_EQ(space.statistics().live, 0);
    CHECK_EQ(space.statistics().occupied, 0);
    space.give_back(Bytes{1} << 40);
    CHECK_EQ(device.created, device.released);
    CHECK(space.allocate(1 << 24, 0) != 0);
  }
  CHECK(after > 60);
}

// Training with checkpoints at lengths that vary: sizes of a Llama of a billion parameters, scaled
// as pages are. Weights, gradients and state live on; activations come and go.
TEST(a_program_of_any_length_needs_three_percent_more_than_what_lives) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    PagesFixture f(6000);
    f.tuning.slack = 20;
    Space space(f.device, f.tuning);
    Random random(seed);
    const Bytes scale = (Bytes{2} << 20) / f.device.page();
    constexpr int kLayers = 16;
    constexpr Bytes kHidden = 2048;
    const auto request = [&](Bytes bytes) {
      const Address block = space.allocate(std::max<Bytes>(bytes / scale, 1), 0);
      CHECK(block != 0);
      return block;
    };
    std::vector<Address> weights;
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const Bytes columns : {3, 1, 4, 4}) {
        for (int copy = 0; copy < 2; ++copy)
          weights.push_back(request(kHidden * kHidden * columns * 2));
      }
      weights.push_back(request(kHidden * 2));
    }
    for (int iteration = 0; iteration < 12; ++iteration) {
      const Bytes tokens = 4 * random.between(64, 1024);
      const Bytes unit = tokens * kHidden * 2;
      std::vector<Address> checkpoints;
      std::vector<Address> gradients;
      const auto inside = [&](bool backward) {
        std::vector<Address> some;
        for (const Bytes width : {1, 3, 1, 4, 4, 1}) some.push_back(request(unit * width));
        some.push_back(request(tokens * 4));
        if (backward) {
          for (const Bytes width : {4, 1, 3}) {
            const Address gradient = request(unit * width);
            gradients.push_back(request(kHidden * kHidden * width * 2));
            space.deallocate(gradient, 0);
          }
        }
        for (Address block : some) space.deallocate(block, 0);
      };
      for (int layer = 0; layer < kLayers; ++layer) {
        checkpoints.push_back(request(unit));
        inside(false);
      }
      const Address logits = request(tokens * 32000 * 2);
      const Address losses = request(tokens * 32000 * 4);
      space.deallocate(losses, 0);
      space.deallocate(logits, 0);
      for (int layer = 0; layer < kLayers; ++layer) {
        inside(true);
        space.deallocate(checkpoints.back(), 0);
        checkpoints.pop_back();
      }
      for (Address block : gradients) space.deallocate(block, 0);
    }
    const Statistics now = space.statistics();
    CHECK(static_cast<double>(now.peak_occupied) <= 1.01 * static_cast<double>(now.peak_live));
    std::printf("  seed %llu: live / pages %.4f, %llu maps, %llu requests that map\n",
                static_cast<unsigned long long>(seed),
                static_cast<double>(now.peak_live) / static_cast<double>(now.peak_held),
                static_cast<unsigned long long>(now.maps),
                static_cast<unsigned long long>(now.requests_that_map));
    CHECK(static_cast<double>(now.peak_held) <= 1.03 * static_cast<double>(now.peak_live));
    for (Address block : weights) space.deallocate(block, 0);
    CHECK_EQ(space.statistics().occupied, 0);
  }
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
