// Tests of slots of plans over pages, one rule at a time.

#include "check.hpp"
#include "pages/space.hpp"
#include "pages_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;
using pages::Address;
using pages::Extent;
using pages::PlannedRange;
using pages::Space;

TEST(a_plan_asks_for_pages_where_slots_are_and_then_for_nothing) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  Owner owner;
  PlannedRange* range = space.reserve_range(f.pages(8), 0, owner);
  CHECK(range != nullptr);
  CHECK_EQ(space.statistics().held, 0);
  const Address base = range->where().address;
  const Extent low{base, f.pages(5)};
  const Extent high{base + static_cast<Address>(f.pages(5)), f.pages(3)};
  CHECK(space.occupy(*range, low, 1));
  CHECK_EQ(space.statistics().held, f.pages(5));
  CHECK(!space.settle(*range, {range->where()}));
  CHECK(space.occupy(*range, high, 1));
  space.vacate(*range, low, 1);
  CHECK(space.settle(*range, {range->where()}));
  CHECK(range->fully_mapped());
  CHECK_EQ(space.statistics().held, f.pages(8));
  space.vacate(*range, high, 1);  // a delayed call
  CHECK(space.occupy(*range, low, 1));
  CHECK_EQ(space.statistics().occupied, f.pages(8));

  // A window takes five idle pages of the plan.
  owner.living = {high};
  const Address block = space.allocate(f.pages(5), 0);
  CHECK(block != 0);
  CHECK(!range->fully_mapped());
  CHECK_EQ(space.statistics().held, f.pages(8));
  CHECK_EQ(space.statistics().surrenders, 1u);
  CHECK(!space.settle(*range, {range->where()}));
  CHECK(!space.close_range(*range));
  space.deallocate(block);
  CHECK(space.settle(*range, {range->where()}));  // its pages are still mapped in the range
  owner.living.clear();
  CHECK(space.close_range(*range));
}

TEST(a_slot_that_was_freed_before_its_range_closed_may_be_vacated_afterwards) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  Owner owner;
  PlannedRange* const range = space.reserve_range(f.pages(2), 0, owner);
  CHECK(range != nullptr);
  const Extent slot = range->where();
  const std::uint64_t taken = range->generation();
  CHECK(space.occupy(*range, slot, taken));
  CHECK(space.settle(*range, {slot}));
  CHECK(space.close_range(*range));  // the owner lists no live slots

  PlannedRange* const next = space.reserve_range(f.pages(2), 0, owner);
  CHECK(next != nullptr && next != range);
  CHECK(next->where().address == slot.address);
  CHECK(space.occupy(*next, slot, next->generation()));
  space.vacate(*range, slot, taken);
  CHECK_EQ(space.statistics().occupied, f.pages(2));
  space.vacate(*next, slot, next->generation());
  CHECK_EQ(space.statistics().occupied, 0);
}

// A plan of eight pages on a device whose work is done at once. Two slots live one after the other,
// each at one end of the plan. So the occupancy never reaches the plan's number of pages.
struct LargerThanItsLoad {
  explicit LargerThanItsLoad(Bytes slot_pages)
      : slot(slot_pages * space.page()), range(space.reserve_range(8 * space.page(), 0, owner)) {}

  bool settles_after_an_iteration() {
    const Extent where = range->where();
    const Extent low{where.address, slot};
    const Extent high{where.address + static_cast<Address>(where.bytes - slot), slot};
    for (const Extent& one : {low, high}) {
      CHECK(space.occupy(*range, one, range->generation()));
      space.vacate(*range, one, range->generation());
    }
    return space.settle(*range, {where});
  }
  Bytes held() { return space.statistics().held / space.page(); }

  PretendedDevice device;
  Owner owner;
  Space space{device, {}, {.confirmations = 1}};
  Bytes slot;
  PlannedRange* range;
};

TEST(a_page_that_a_plan_lacks_in_each_iteration_is_created) {
  LargerThanItsLoad plan(7);
  CHECK(!plan.settles_after_an_iteration());
  CHECK_EQ(plan.held(), 7);
  CHECK(plan.settles_after_an_iteration());
  CHECK_EQ(plan.held(), 8);
  const auto maps = plan.space.statistics().maps;
  CHECK(plan.settles_after_an_iteration());
  CHECK_EQ(plan.space.statistics().maps, maps);

  // Another block takes one of the pages: one more page is occupied, and one more is created.
  const Address block = plan.space.allocate(plan.space.page(), 0);
  CHECK(block != 0);
  CHECK(!plan.range->fully_mapped());
  for (int iteration = 0; iteration < 8; ++iteration) (void)plan.settles_after_an_iteration();
  CHECK(plan.range->fully_mapped());
  CHECK_EQ(plan.held(), 9);
}

TEST(a_plan_that_lacks_many_pages_gets_none) {
  LargerThanItsLoad plan(6);
  for (int iteration = 0; iteration < 5; ++iteration) CHECK(!plan.settles_after_an_iteration());
  CHECK_EQ(plan.held(), 6);
}

TEST(a_slot_whose_page_is_lent_and_still_in_use_is_refused) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  Owner owner;
  PlannedRange* range = space.reserve_range(f.pages(2), 0, owner);
  const Extent slot{range->where().address, f.pages(2)};
  CHECK(space.occupy(*range, slot, 1));
  f.device.fill(0, slot, 1);
  space.vacate(*range, slot, 1);
  const Address block = space.allocate(f.pages(2), 0);
  CHECK_EQ(space.statistics().held, f.pages(2));
  CHECK(!space.occupy(*range, slot, 1));
  f.device.synchronize();
  CHECK(space.occupy(*range, slot, 1));  // maps other pages
  CHECK_EQ(space.statistics().held, f.pages(4));
  space.deallocate(block);
}

TEST(pages_needed_while_slots_were_refused_go_back) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  Owner owner;
  PlannedRange* range = space.reserve_range(f.pages(2), 0, owner);
  const Extent slot{range->where().address, f.pages(2)};
  space.share(owner, {{{range, 0}}, {{range, 1}}}, 0);
  CHECK(space.occupy(*range, slot, 1));
  f.device.fill(0, slot, 1);  // pending work, which keeps the mapping
  space.vacate(*range, slot, 1);
  const Address block = space.allocate(f.pages(2), 0);
  for (int iteration = 0; !space.has_to_give_back(); ++iteration) {
    CHECK(iteration < 10);
    CHECK(!space.occupy(*range, slot, 1));
    space.arrange(owner);
  }
  const Bytes before = space.statistics().held;
  CHECK(!space.occupy(*range, slot, 1));
  space.deallocate(space.allocate(f.pages(20), 0));
  space.arrange(owner);
  CHECK(space.statistics().held > before);
  space.deallocate(block);
  f.device.synchronize();

  for (int iteration = 0; iteration < 2; ++iteration) {
    CHECK(space.occupy(*range, slot, 1));  // maps the pages for the first time
    space.arrange(owner);
    space.vacate(*range, slot, 1);
  }
  CHECK(!space.has_to_give_back());
  CHECK(space.statistics().held <= before);
}

TEST(a_plan_whose_pages_the_device_refuses_to_map_is_mapped_later) {
  PagesFixture f;
  Space space(f.device, f.properties, f.heuristics);
  Owner owner;
  PlannedRange* range = space.reserve_range(f.pages(2), 0, owner);
  CHECK(space.deallocate(space.allocate(f.pages(2), 0)));  // now two pages are idle
  space.share(owner, {{{range, 0}}, {{range, 1}}}, 0);
  f.device.refuse_map = true;
  space.arrange(owner);
  f.device.refuse_map = false;
  CHECK_EQ(space.statistics().arranged, 0u);
  space.arrange(owner);
  CHECK_EQ(space.statistics().arranged, 2u);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
