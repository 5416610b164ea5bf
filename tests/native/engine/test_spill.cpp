// Tests of spilled slots: slots of every stream in one arena, at offsets above all other arenas.

#include <cstdint>
#include <stdexcept>

#include "check.hpp"
#include "engine/memory/arenas.hpp"
#include "engine_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

constexpr std::uintptr_t kA = 0x100000;
constexpr std::uintptr_t kB = 0x900000;

Arenas::Segment segment(std::uint32_t stream, Offset begin, std::uintptr_t base,
                        std::size_t bytes) {
  return {stream, begin, {reinterpret_cast<void*>(base), bytes, nullptr, nullptr}};
}

}  // namespace

TEST(what_is_spilled_lies_behind_all_arenas) {
  Arenas arenas;
  Arenas::Segment spill = segment(Arenas::kEveryStream, 3000, 0x2000000, 500);
  arenas.add(spill);
  CHECK(arenas.attached());
  CHECK_EQ(arenas.without(), ~std::uint64_t{0});
  arenas.add(segment(0, 0, kA, 1000));
  arenas.add(segment(1, 1000, kB, 2000));
  CHECK_EQ(arenas.address(0, 999), kA + 999);
  CHECK_EQ(arenas.address(0, 3000), 0x2000000u);
  CHECK_EQ(arenas.address(1, 3499), 0x2000000u + 499);
  CHECK_EQ(arenas.offset_at(0x2000000 + 499).value_or(-1), 3499);
  CHECK_EQ(arenas.stream_at(0x2000000).value_or(9), Arenas::kEveryStream);
  CHECK(arenas.has_room(0, 3000, 500, 1));
  CHECK(!arenas.has_room(0, 3000, 501, 1));
  CHECK(!arenas.has_room(0, 2999, 2, 1));
  CHECK(!arenas.has_room(0, 1000, 1, 1));
  CHECK_EQ(arenas.bytes(), 3500);
  CHECK_THROWS(arenas.add(spill), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(2, 4000, 0x3000000, 10)), std::invalid_argument);
  spill.begin = 500;
  Arenas others;
  others.add(segment(0, 1000, kA, 1000));
  CHECK_THROWS(others.add(spill), std::invalid_argument);
  LateSet late;
  late.insert(3000, 100);
  CHECK_EQ(arenas.retire(late).size(), 2u);
  CHECK_EQ(arenas.release_retired(0x2000000)->bytes, 100);
  CHECK_EQ(arenas.bytes(), 0);
}

TEST(a_plan_that_spills_serves_from_both_arenas) {
  Fixture f;
  f.engine.add_spill(4000, f.range(1, 2000));
  f.engine.add_arena(kStream, 0, f.range(0, 4000));
  f.add({slot(100, 3, 0, 0), slot(200, 3, 4000, 0), slot(300, 3, 3000, 0)});
  f.engine.start_serving();
  const std::uintptr_t blocks[] = {f.allocate(100), f.allocate(200), f.allocate(300)};
  CHECK_EQ(blocks[0], Fixture::base(0));
  CHECK_EQ(blocks[1], Fixture::base(1));
  CHECK_EQ(blocks[2], Fixture::base(0) + 3000);
  f.engine.detach_arena();
  CHECK(f.release(blocks[1]));
  CHECK_EQ(f.returned[1], 1);
  CHECK(f.release(blocks[0]));
  CHECK_EQ(f.returned[0], 0);
  CHECK(f.release(blocks[2]));
  CHECK_EQ(f.given_back(), 2);
}

TEST(plans_that_spill_are_refused_where_nothing_can_be_spilled) {
  Fixture f;
  f.engine.add_arena(kStream, 0, f.range(0, 4000));
  CHECK_THROWS(f.add({slot(100, 2, 0, 0), slot(200, 2, 4000, 0)}), std::invalid_argument);
  f.engine.detach_arena();
  f.engine.add_spill(4000, f.range(1, 2000));
  CHECK_THROWS(f.add({slot(100, 2, 0, 0), slot(2001, 2, 4000, 0)}), std::invalid_argument);
  CHECK_THROWS(f.add({slot(100, 2, 0, 0), slot(200, 2, 3900, 0)}), std::invalid_argument);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
