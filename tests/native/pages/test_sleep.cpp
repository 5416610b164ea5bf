// Tests of sleeping blocks: which pages stay, which blocks may use them, and which contents return.

#include <functional>
#include <utility>
#include <vector>

#include "check.hpp"
#include "pages/space.hpp"
#include "pages_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;
using pages::Address;
using pages::Extent;
using pages::Sleep;
using pages::Space;

namespace {

Sleep put_to_sleep(Space& space, const std::vector<Extent>& blocks, std::vector<Extent>& runs) {
  const Sleep sleep = space.prepare_sleep(blocks, runs);
  space.begin_sleep(sleep);
  return sleep;
}

// A device that calls a function during its own calls, as another thread might.
struct Interrupted final : pages::DeviceDriver {
  explicit Interrupted(FakeDevice& beneath) : beneath_(beneath) {}

  Address reserve(Bytes bytes) noexcept override { return beneath_.reserve(bytes); }
  bool create(pages::Handle& page) noexcept override { return beneath_.create(page); }
  void release(pages::Handle page) noexcept override { beneath_.release(page); }
  bool map(Address address, pages::Handle page) noexcept override {
    return beneath_.map(address, page);
  }
  bool grant(Address address, Bytes bytes) noexcept override {
    return beneath_.grant(address, bytes);
  }
  void unmap(Address address, Bytes bytes) noexcept override {
    if (unmapping) std::exchange(unmapping, nullptr)();
    beneath_.unmap(address, bytes);
  }
  pages::Event record(pages::Stream stream) noexcept override { return beneath_.record(stream); }
  bool completed(pages::Event event) noexcept override { return beneath_.completed(event); }
  void discard(pages::Event event) noexcept override { beneath_.discard(event); }
  bool wait(pages::Stream stream, pages::Event event) noexcept override {
    return beneath_.wait(stream, event);
  }
  bool capturing() noexcept override { return beneath_.capturing(); }

  std::function<void()> unmapping;

 private:
  FakeDevice& beneath_;
};

}  // namespace

TEST(pages_go_and_come_back_under_the_same_addresses) {
  PagesFixture f(4);
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(3), 0);
  std::vector<Extent> runs;
  const Sleep sleep = put_to_sleep(space, {{a, f.pages(3)}}, runs);
  CHECK_EQ(runs.size(), 1u);
  CHECK_EQ(runs[0].address, a);
  CHECK_EQ(runs[0].bytes, f.pages(3));
  CHECK_EQ(f.device.pages_created(), 0u);
  CHECK_EQ(space.statistics().occupied, 0);
  CHECK_EQ(space.statistics().live, f.pages(3));
  const Address other = space.allocate(f.pages(4), 0);  // the whole card
  CHECK(other != 0);
  CHECK(!space.wake(sleep, runs));
  space.deallocate(other);
  runs.clear();
  CHECK(space.wake(sleep, runs));
  CHECK_EQ(runs.size(), 1u);
  CHECK(f.device.page_at(a) != 0);
  CHECK_EQ(space.statistics().occupied, f.pages(3));
  CHECK(space.deallocate(a));
}

TEST(a_page_with_other_blocks_stays) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(1) + f.pages(1) / 2, 0);
  const Address b = space.allocate(f.pages(1) / 2 + 512, 0);  // from the second page on
  CHECK_EQ(b, a + static_cast<Address>(f.pages(1) + f.pages(1) / 2));
  std::vector<Extent> runs;
  const Sleep sleep = put_to_sleep(space, {{a, 1}}, runs);
  CHECK_EQ(runs.size(), 1u);
  CHECK_EQ(runs[0].bytes, f.pages(1));
  CHECK(f.device.page_at(b) != 0);
  CHECK(space.wake(sleep, runs));
}

TEST(no_block_enters_a_sleeping_place) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(1) / 2 + 512, 0);
  std::vector<Extent> runs;
  const Sleep sleep = put_to_sleep(space, {{a, 0}}, runs);
  const Address b = space.allocate(f.pages(1) / 2 - 512, 0);  // would fit behind the first block
  CHECK(b != 0);
  CHECK(b / static_cast<Address>(f.pages(1)) != a / static_cast<Address>(f.pages(1)));
  CHECK(space.wake(sleep, runs));
}

TEST(a_block_freed_asleep_does_not_wake) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(2), 0);
  const Address b = space.allocate(f.pages(2), 0);
  std::vector<Extent> runs;
  const Sleep sleep = put_to_sleep(space, {{a, 0}, {b, 0}}, runs);
  CHECK(space.deallocate(a));
  CHECK_EQ(space.allocate(f.pages(2), 0), a);
  runs.clear();
  CHECK(space.wake(sleep, runs));
  CHECK_EQ(runs.size(), 1u);
  CHECK_EQ(runs[0].address, b);
}

TEST(a_block_freed_while_its_page_is_unmapped_leaves_nothing_behind) {
  PagesFixture f;
  Interrupted device(f.device);
  Space space(device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(2), 0);
  std::vector<Extent> runs;
  const Sleep sleep = space.prepare_sleep(std::vector<Extent>{{a, 0}}, runs);
  device.unmapping = [&] { CHECK(space.deallocate(a)); };
  (void)space.begin_sleep(sleep);
  CHECK_EQ(space.statistics().occupied, 0);
  const Address b = space.allocate(f.pages(3), 0);
  CHECK_EQ(b, a);
  CHECK_EQ(space.statistics().occupied, f.pages(3));
  CHECK(f.device.page_at(b) != 0);
  runs.clear();
  CHECK(space.wake(sleep, runs));
  CHECK(runs.empty());
}

TEST(block_freed_before_sleep_begins_leaves_its_place_to_others) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(1), 0);
  std::vector<Extent> runs;
  const Sleep sleep = space.prepare_sleep(std::vector<Extent>{{a, 0}}, runs);
  CHECK(space.deallocate(a));
  (void)space.give_back(f.pages(1));  // records events
  f.device.synchronize();
  CHECK_EQ(space.give_back(f.pages(1)), f.pages(1));
  CHECK_EQ(space.begin_sleep(sleep), 0);
  CHECK_EQ(space.allocate(f.pages(1), 0), a);
}

TEST(a_block_in_the_place_of_a_freed_sleeper_keeps_its_page) {
  PagesFixture f;
  f.properties.aliases = false;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(1), 0);
  std::vector<Extent> runs;
  const Sleep sleep = space.prepare_sleep(std::vector<Extent>{{a, 0}}, runs);
  CHECK(space.deallocate(a));
  (void)space.give_back(0);
  f.device.synchronize();
  const Address b = space.allocate(f.pages(1), 1);  // takes the page of the sleeping block
  const Address c = space.allocate(f.pages(1), 0);
  CHECK_EQ(c, a);
  CHECK_EQ(space.begin_sleep(sleep), 0);
  CHECK(f.device.page_at(b) != 0);
  CHECK(f.device.page_at(c) != 0);
}

TEST(a_block_freed_while_it_wakes_leaves_its_place_when_contents_are_back) {
  PagesFixture f(3);
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(2), 0);
  std::vector<Extent> runs;
  const Sleep sleep = put_to_sleep(space, {{a, 0}}, runs);
  runs.clear();
  CHECK(space.wake(sleep, runs));
  CHECK(space.deallocate(a));
  const Address b = space.allocate(f.pages(1), 0);  // at other addresses, on other pages
  CHECK(b != 0);
  CHECK(b >= a + static_cast<Address>(f.pages(2)));
  CHECK_EQ(space.allocate(f.pages(1), 0), Address{0});  // there are no other pages
  std::vector<Extent> again;
  CHECK(space.wake(sleep, again));  // as after a failed copy
  CHECK_EQ(again.size(), 1u);
  CHECK_EQ(again[0].address, a);
  CHECK_EQ(again[0].bytes, f.pages(2));
  space.end_sleep(sleep);
  CHECK_EQ(space.statistics().occupied, f.pages(1));
  CHECK_EQ(space.allocate(f.pages(2), 0), a);
}

TEST(a_block_is_used_as_before_after_its_sleep) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(1) / 2, 0);
  std::vector<Extent> runs;
  const Sleep sleep = put_to_sleep(space, {{a, 0}}, runs);
  CHECK(space.wake(sleep, runs));
  space.end_sleep(sleep);
  CHECK_EQ(space.statistics().occupied, f.pages(1));
  const Address b = space.allocate(f.pages(1) / 2, 0);  // beside it
  CHECK_EQ(b, a + static_cast<Address>(f.pages(1) / 2));
  CHECK(space.deallocate(a));
  CHECK(space.deallocate(b));
  CHECK_EQ(space.statistics().occupied, 0);
}

TEST(a_sleep_that_ends_before_it_begins_changes_nothing) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(2), 0);
  const auto page = f.device.page_at(a);
  std::vector<Extent> runs;
  const Sleep sleep = space.prepare_sleep(std::vector<Extent>{{a, 0}}, runs);
  space.end_sleep(sleep);
  CHECK_EQ(f.device.page_at(a), page);
  CHECK(space.wake(sleep, runs));  // has no effect
  CHECK(space.deallocate(a));
  CHECK_EQ(space.allocate(f.pages(2), 0), a);
}

TEST(memory_shared_with_a_process_does_not_sleep) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(1), 0);
  std::vector<pages::Handle> shared;
  CHECK_EQ(space.share({a, f.pages(1)}, shared), a);
  std::vector<Extent> runs;
  (void)put_to_sleep(space, {{a, 0}}, runs);
  CHECK(runs.empty());
  CHECK(f.device.page_at(a) != 0);
}

TEST(pinned_memory_of_a_graph_keeps_its_pages) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(1), 0);
  CHECK(space.pin({a, f.pages(1)}));
  std::vector<Extent> runs;
  const Sleep sleep = put_to_sleep(space, {{a, 0}}, runs);
  CHECK_EQ(f.device.pages_created(), 0u);
  CHECK(space.wake(sleep, runs));
  CHECK(f.device.page_at(a) != 0);
}

TEST(the_highest_occupancy_can_be_forgotten) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  const Address a = space.allocate(f.pages(8), 0);
  space.deallocate(a);
  space.give_back(f.pages(8));  // records events
  f.device.synchronize();
  space.give_back(f.pages(8));
  space.forget_peak();
  const Address b = space.allocate(f.pages(2), 0);
  space.deallocate(b);
  const Address c = space.allocate(f.pages(2), 1);  // would otherwise get new pages
  CHECK(c != 0);
  CHECK_EQ(space.statistics().held, f.pages(2));
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
