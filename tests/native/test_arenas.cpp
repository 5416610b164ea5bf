#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "check.hpp"
#include "engine/arenas.hpp"
#include "engine_fixture.hpp"
#include "failing_new.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

constexpr std::uintptr_t kA = 0x100000;
constexpr std::uintptr_t kB = 0x900000;

Arenas::Segment segment(std::uint32_t stream, Offset begin, std::uintptr_t base,
                        std::size_t bytes) {
  return {stream, begin, {reinterpret_cast<void*>(base), bytes, nullptr, nullptr}};
}

// The first stream's offsets are [0, 1000), the second one's [1000, 3000).
Arenas two_arenas() {
  Arenas arenas;
  arenas.add(segment(0, 0, kA, 1000));
  arenas.add(segment(1, 1000, kB, 2000));
  return arenas;
}

using Ranges = std::vector<std::pair<std::uintptr_t, Bytes>>;

Ranges late_blocks(const Arenas& arenas, const LateSet& late) {
  Ranges all;
  arenas.for_each_late(
      late, [&](std::uintptr_t address, Bytes bytes) { all.emplace_back(address, bytes); });
  return all;
}

// Of two streams, whose slots follow each other in one range of offsets.
const std::vector<PlannedRequest> kApart = {slot(100, 4, 0, 0), slot(200, 4, 4000, 1),
                                            slot(300, 4, 3000, 0), slot(400, 4, 5000, 1)};

// Begins at 0 and 4000.
void attach_both(Fixture& f) {
  f.engine.add_arena(kStream, 0, f.range(0, 4000));
  f.engine.add_arena(kOtherStream, 4000, f.range(1, 2000));
}

}  // namespace

TEST(each_stream_has_addresses_of_its_own) {
  const Arenas arenas = two_arenas();
  CHECK_EQ(arenas.address(0, 10), kA + 10);
  CHECK_EQ(arenas.address(1, 1010), kB + 10);
  CHECK_EQ(arenas.offset_at(kA + 999).value_or(-1), 999);
  CHECK_EQ(arenas.offset_at(kB + 1999).value_or(-1), 2999);
  CHECK(!arenas.offset_at(kA + 1000));
  CHECK(!arenas.offset_at(kB - 1));
  CHECK_EQ(arenas.stream_at(kA).value_or(9), 0u);
  CHECK_EQ(arenas.stream_at(kB + 1999).value_or(9), 1u);
  CHECK(!arenas.stream_at(kB + 2000));
  CHECK_EQ(arenas.bytes(), 3000);
  CHECK_EQ(arenas.count(), 2u);
}

TEST(an_arena_of_every_stream_serves_all_of_them) {
  Arenas arenas;
  CHECK_EQ(arenas.without(), ~std::uint64_t{0});
  CHECK(!arenas.attached());
  arenas.add(segment(Arenas::kEveryStream, 0, kA, 1000));
  CHECK(arenas.attached());
  CHECK_EQ(arenas.without(), 0u);
  for (const std::uint32_t stream : {0u, 1u, 63u, 64u, 70'000u}) {
    CHECK_EQ(arenas.address(stream, 7), kA + 7);
    CHECK(arenas.has_room(stream, 900, 100));
    CHECK(!arenas.has_room(stream, 901, 100));
  }
  CHECK_EQ(arenas.stream_at(kA).value_or(9), Arenas::kEveryStream);
  CHECK_EQ(arenas.extent(), 1000);
}

TEST(streams_without_an_arena_are_known) {
  const Arenas arenas = two_arenas();
  CHECK_EQ(arenas.without(), ~std::uint64_t{3});
  CHECK(arenas.has_room(5, 123'456, 1 << 20));  // nothing is known yet that it could not fit into
}

TEST(a_slot_has_room_in_the_arena_of_its_own_stream_only) {
  const Arenas arenas = two_arenas();
  CHECK(arenas.has_room(0, 0, 1000));
  CHECK(!arenas.has_room(0, 0, 1001));
  CHECK(!arenas.has_room(0, 1000, 10));
  CHECK(arenas.has_room(1, 1000, 2000));
  CHECK(!arenas.has_room(1, 999, 10));
  CHECK(!arenas.has_room(1, 2991, 10));
}

TEST(arenas_that_share_offsets_are_refused_and_nothing_changes) {
  Arenas arenas;
  arenas.add(segment(0, 1000, kA, 1000));
  const std::pair<Offset, std::size_t> overlapping[] = {
      {1000, 1000}, {0, 1001}, {1999, 1}, {1200, 100}, {500, 3000}};
  for (const auto& [begin, bytes] : overlapping) {
    CHECK_THROWS(arenas.add(segment(1, begin, kB, bytes)), std::invalid_argument);
  }
  CHECK_EQ(arenas.without(), ~std::uint64_t{1});
  CHECK_EQ(arenas.count(), 1u);
  CHECK(!arenas.owns(kB));
  arenas.add(segment(1, 0, kB, 1000));
  arenas.add(segment(2, 2000, kB + 4096, 10));
  CHECK_EQ(arenas.count(), 3u);
}

TEST(a_stream_has_one_arena) {
  Arenas arenas;
  arenas.add(segment(3, 0, kA, 1000));
  CHECK_THROWS(arenas.add(segment(3, 5000, kB, 10)), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(Arenas::kEveryStream, 5000, kB, 10)), std::invalid_argument);
  CHECK_EQ(arenas.address(3, 0), kA);
  Arenas every;
  every.add(segment(Arenas::kEveryStream, 0, kA, 1000));
  CHECK_THROWS(every.add(segment(3, 5000, kB, 10)), std::invalid_argument);
  CHECK_THROWS(every.add(segment(Arenas::kEveryStream, 5000, kB, 10)), std::invalid_argument);
}

TEST(an_arena_that_is_no_range_of_memory_or_of_offsets_is_refused) {
  Arenas arenas;
  CHECK_THROWS(arenas.add(segment(0, 0, 0, 1000)), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(0, 0, kA, 0)), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(0, 0, kA, ~std::size_t{0})), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(0, 0, kA, std::size_t{1} << 63)), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(0, -1, kA, 1000)), std::invalid_argument);
  // Offsets from there on are those of the opening's region.
  CHECK_THROWS(arenas.add(segment(0, Regions::kOpening - 999, kA, 1000)), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(0, ~(Offset{1} << 63), kA, 1000)), std::invalid_argument);
  CHECK(!arenas.attached());
  arenas.add(segment(0, Regions::kOpening - 1000, kA, 1000));
  CHECK_EQ(arenas.address(0, Regions::kOpening - 1), kA + 999);
}

TEST(only_so_many_streams_have_an_arena_of_their_own) {
  Arenas arenas;
  for (std::uint32_t stream = 0; stream < Arenas::kMostStreams; ++stream) {
    arenas.add(segment(stream, 1000 * stream, kA + 0x10000 * stream, 1000));
  }
  CHECK_THROWS(arenas.add(segment(Arenas::kMostStreams, 1'000'000, kB, 1000)),
               std::invalid_argument);
  // However many have one, those beyond them are known to have none.
  CHECK(arenas.without() != 0);
  CHECK_EQ(arenas.address(Arenas::kMostStreams - 1, 1000 * (Arenas::kMostStreams - 1)),
           kA + 0x10000 * (Arenas::kMostStreams - 1));
}

TEST(a_late_set_is_cut_into_parts) {
  LateSet late;
  for (const Offset offset : {0, 900, 1000, 1500, 2900, 3000}) late.insert(offset, 100);
  const LateSet part = late.part(1000, 2000);
  CHECK_EQ(part.size(), 3u);
  CHECK(part.overlaps(0, 1));
  CHECK(part.overlaps(599, 1));
  CHECK(part.overlaps(1999, 1));
  CHECK(!part.overlaps(100, 400));
  CHECK(!part.overlaps(600, 1300));
  CHECK(!part.overlaps(2000, 5000));
  CHECK(late.part(3100, 100).empty());
  CHECK_EQ(late.size(), 6u);
}

TEST(retired_arenas_take_their_late_blocks_with_them) {
  Arenas arenas = two_arenas();
  arenas.add(segment(2, 3000, kB + 0x10000, 500));
  LateSet late;
  late.insert(40, 10);
  late.insert(990, 10);
  late.insert(1000, 20);
  const Ranges before = late_blocks(arenas, late);
  CHECK(before == Ranges({{kA + 40, 10}, {kA + 990, 10}, {kB, 20}}));
  const std::vector<pgmo_arena> empty = arenas.retire(late);
  CHECK_EQ(empty.size(), 1u);
  CHECK(empty.at(0).base == reinterpret_cast<void*>(kB + 0x10000));
  CHECK(late.empty());
  CHECK(!arenas.attached());
  CHECK_EQ(arenas.without(), ~std::uint64_t{0});
  CHECK(!arenas.offset_at(kA));
  CHECK(arenas.owns(kA));
  CHECK(!arenas.owns(kB + 0x10000));
  CHECK(late_blocks(arenas, late) == before);

  const auto released = [&](std::uintptr_t address) {
    return arenas.release_retired(address).value_or(Arenas::Released{-1, {}});
  };
  CHECK_EQ(released(kA + 41).bytes, 0);  // no block begins there
  CHECK_EQ(released(kA + 990).bytes, 10);
  CHECK_EQ(released(kA + 990).bytes, 0);
  CHECK(released(kB + 1).empty.base == nullptr);
  const Arenas::Released last = released(kA + 40);
  CHECK_EQ(last.bytes, 10);
  CHECK(last.empty.base == reinterpret_cast<void*>(kA));
  CHECK(!arenas.release_retired(kA + 40));  // it is no longer ours
  CHECK_EQ(arenas.count(), 1u);
  CHECK(released(kB).empty.base == reinterpret_cast<void*>(kB));
  CHECK_EQ(arenas.bytes(), 0);
}

TEST(retirement_without_memory_changes_nothing) {
  Arenas arenas = two_arenas();
  LateSet late;
  late.insert(40, 10);
  late.insert(1000, 20);
  const Ranges before = late_blocks(arenas, late);
  int failures = 0;
  for (int after = 0;; ++after) {
    try {
      const FailingAllocation failing(after);
      CHECK(arenas.retire(late).empty());
      break;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    CHECK_EQ(arenas.address(1, 1000), kB);
    CHECK_EQ(arenas.without(), ~std::uint64_t{3});
    CHECK_EQ(late.size(), 2u);
    CHECK(late_blocks(arenas, late) == before);
  }
  CHECK(failures >= 4);  // two vectors and two parts
  CHECK(late_blocks(arenas, late) == before);
}

// --- as the engine uses them --------------------------------------------------------------------

TEST(a_plan_with_a_slot_outside_of_its_streams_arena_is_refused) {
  Fixture f;
  attach_both(f);
  const std::vector<std::vector<PlannedRequest>> outside = {
      {slot(100, 1, 3901, 0)},
      {slot(100, 1, 4000, 0)},
      {slot(100, 1, 0, 1)},
      {slot(100, 1, 3999, 1)},
      {slot(100, 1, 5901, 1)},
      {slot(100, 2, 0, 0), slot(50, 2, 5000, 0)},
      {two_turns(100, 2, 4000, 3950, 1)},
      {two_turns(100, 2, 4000, 5901, 1)}};
  for (const auto& rows : outside) CHECK_THROWS(f.add(rows), std::invalid_argument);
  CHECK_THROWS(f.engine.start_serving(), std::logic_error);
  CHECK_EQ(f.add(kApart), 0u);
  f.engine.start_serving();
  CHECK_EQ(f.allocate(100), Fixture::base(0));
  CHECK_EQ(f.allocate(200, kOtherStream), Fixture::base(1));
  CHECK_EQ(f.allocate(300), Fixture::base(0) + 3000);
  CHECK_EQ(f.allocate(400, kOtherStream), Fixture::base(1) + 1000);
}

TEST(an_arena_that_a_plan_has_slots_outside_of_is_refused_and_nothing_changes) {
  Fixture f;
  f.engine.add_arena(kStream, 0, f.range(0, 4000));
  f.add(kApart);
  f.engine.start_serving();
  CHECK_THROWS(f.engine.add_arena(kOtherStream, 4001, f.range(1, 2000)), std::invalid_argument);
  CHECK_THROWS(f.engine.add_arena(kOtherStream, 4000, f.range(1, 1399)), std::invalid_argument);
  CHECK_THROWS(f.engine.add_arena(kOtherStream, 3999, f.range(1, 3000)), std::invalid_argument);
  CHECK_THROWS(f.engine.add_arena(kStream, 6000, f.range(1, 4000)), std::invalid_argument);
  CHECK_EQ(f.engine.statistics().arenas, 1u);
  CHECK_EQ(f.given_back(), 0);
  CHECK_EQ(f.allocate(100), Fixture::base(0));
  CHECK_EQ(f.allocate(200, kOtherStream), 0u);
  CHECK_EQ(f.missed(Miss::kNoArena), 1u);
  f.engine.add_arena(kOtherStream, 4000, f.range(1, 1400));
  CHECK_EQ(f.allocate(300), Fixture::base(0) + 3000);
  CHECK_EQ(f.allocate(400, kOtherStream), Fixture::base(1) + 1000);
}

TEST(a_stream_without_an_arena_misses_and_the_others_go_on) {
  Fixture f;
  f.engine.add_arena(kOtherStream, 4000, f.range(1, 2000));
  f.add(kApart);
  f.engine.start_serving();
  for (int iteration = 0; iteration < 2; ++iteration) {
    CHECK_EQ(f.allocate(100), 0u);
    CHECK_EQ(f.allocate(200, kOtherStream), Fixture::base(1));
    CHECK_EQ(f.allocate(300), 0u);
    CHECK_EQ(f.allocate(400, kOtherStream), Fixture::base(1) + 1000);
    CHECK(f.release(Fixture::base(1)));
    CHECK(f.release(Fixture::base(1) + 1000));
    f.engine.end_iteration();
  }
  CHECK_EQ(f.missed(Miss::kNoArena), 4u);
  CHECK_EQ(f.engine.statistics().counters.hits, 4u);
  CHECK_EQ(f.engine.statistics().counters.skipped, 0u);  // the plan has answered every request
}

TEST(a_stream_beyond_those_that_may_have_an_arena_has_none) {
  Fixture f;
  std::vector<std::uint64_t> streams;
  for (std::uint64_t stream = 1; stream <= 70; ++stream) streams.push_back(stream);
  for (std::uint32_t index = 0; index < Arenas::kMostStreams; ++index) {
    f.engine.add_arena(streams[index], 1000 * Offset{index}, f.range(0, 1000));
  }
  const std::vector<PlannedRequest> rows = {slot(10, 2, 0, 0), slot(20, 2, 500'000, 64)};
  f.engine.add_plan(rows, streams, 1'000'000, 1);
  f.engine.start_serving();
  CHECK_EQ(f.allocate(10, streams[0]), Fixture::base(0));
  CHECK_EQ(f.allocate(20, streams[64]), 0u);
  CHECK_EQ(f.missed(Miss::kNoArena), 1u);
}

TEST(an_arena_for_every_stream_replaces_those_of_single_ones) {
  Fixture f;
  attach_both(f);
  f.add(kApart);
  f.engine.start_serving();
  const std::uintptr_t first = f.allocate(100);
  f.attach(2);
  CHECK_EQ(f.returned[0], 0);
  CHECK_EQ(f.returned[1], 1);  // nothing was in it
  CHECK_EQ(f.engine.statistics().arenas, 2u);
  CHECK_EQ(f.engine.statistics().arena_bytes, 14'000);
  CHECK_EQ(f.allocate(100), Fixture::base(2));
  CHECK_EQ(f.allocate(200, kOtherStream), Fixture::base(2) + 4000);
  CHECK_THROWS(f.engine.add_arena(kStream, 0, f.range(0, 4000)), std::invalid_argument);
  CHECK(f.release(first));
  CHECK_EQ(f.returned[0], 1);
  f.engine.detach_arena();
  CHECK_EQ(f.returned[2], 0);
  CHECK(f.release(Fixture::base(2) + 4000));
  CHECK(f.release(Fixture::base(2)));
  for (int arena = 0; arena < 3; ++arena) CHECK_EQ(f.returned[static_cast<std::size_t>(arena)], 1);
  CHECK_EQ(f.engine.statistics().slots.live, 0);
}

TEST(each_arena_goes_back_with_its_own_last_block) {
  Fixture f;
  attach_both(f);
  f.add(kApart);
  f.engine.start_serving();
  const std::uintptr_t blocks[] = {f.allocate(100), f.allocate(200, kOtherStream), f.allocate(300),
                                   f.allocate(400, kOtherStream)};
  f.engine.end_iteration();
  f.engine.detach_arena();
  CHECK(!f.engine.has_arena());
  CHECK_EQ(f.given_back(), 0);
  CHECK_EQ(f.engine.statistics().slots.live, 1000);
  CHECK(f.release(blocks[1]));
  CHECK(f.release(blocks[0]));
  CHECK_EQ(f.given_back(), 0);
  CHECK_EQ(f.engine.statistics().slots.live, 700);
  CHECK(f.owns(blocks[2]));
  CHECK(f.release(blocks[2]));
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.returned[1], 0);
  CHECK_EQ(f.engine.statistics().arena_bytes, 2000);
  CHECK(f.release(blocks[3]));
  CHECK_EQ(f.returned[1], 1);
  CHECK(!f.release(blocks[3]));
  CHECK(!f.owns(blocks[3]));
  CHECK_EQ(f.given_back(), 2);
  CHECK_EQ(f.engine.statistics().slots.live, 0);
}

TEST(an_arena_is_added_wholly_or_not_at_all) {
  Fixture f;
  f.engine.add_arena(kStream, 0, f.range(0, 4000));
  f.add(kApart);
  f.engine.start_serving();
  int failures = 0;
  for (int after = 0;; ++after) {
    try {
      const FailingAllocation failing(after);
      f.engine.add_arena(kOtherStream, 4000, f.range(1, 2000));
      break;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    CHECK_EQ(f.engine.statistics().arenas, 1u);
    CHECK_EQ(f.given_back(), 0);
  }
  CHECK(failures > 0);
  CHECK_EQ(f.allocate(100), Fixture::base(0));
  CHECK_EQ(f.allocate(200, kOtherStream), Fixture::base(1));
}

TEST(arenas_are_let_go_of_wholly_or_not_at_all) {
  Fixture f;
  attach_both(f);
  f.add(kApart);
  f.engine.start_serving();
  const std::uintptr_t blocks[] = {f.allocate(100), f.allocate(200, kOtherStream)};
  int failures = 0;
  for (int after = 0;; ++after) {
    try {
      const FailingAllocation failing(after);
      f.attach(2);
      break;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    CHECK_EQ(f.engine.statistics().arenas, 2u);
    CHECK_EQ(f.engine.statistics().slots.live, 300);
    CHECK(!f.owns(Fixture::base(2)));
  }
  CHECK(failures > 4);
  CHECK_EQ(f.engine.statistics().arenas, 3u);
  CHECK(f.release(blocks[0]));
  CHECK(f.release(blocks[1]));
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.returned[1], 1);
  CHECK_EQ(f.engine.statistics().slots.live, 0);
  CHECK_EQ(f.allocate(100), Fixture::base(2));
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
