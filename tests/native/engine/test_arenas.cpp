#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "check.hpp"
#include "engine/memory/arenas.hpp"
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

// Return arenas with offsets [0, 1000) for the first stream, and [1000, 3000) for the second.
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

}  // namespace

TEST(each_stream_has_addresses_of_its_own) {
  const Arenas arenas = two_arenas();
  CHECK_EQ(arenas.address(0, 10), kA + 10);
  CHECK_EQ(arenas.address(1, 1010), kB + 10);
  CHECK_EQ(arenas.offset_at(kA + 999).value_or(-1), 999);
  CHECK_EQ(arenas.offset_at(kB + 1999).value_or(-1), 2999);
  CHECK(!arenas.offset_at(kA + 1000));
  CHECK(!arenas.offset_at(kB - 1));
  CHECK_EQ(arenas.at(kA)->stream_index, 0u);
  CHECK_EQ(arenas.at(kB + 1999)->stream_index, 1u);
  CHECK(arenas.at(kB + 2000) == nullptr);
  CHECK_EQ(arenas.bytes(), 3000);
  CHECK_EQ(arenas.count(), 2u);
}

TEST(streams_without_an_arena_are_known) {
  CHECK_EQ(Arenas().without(), ~std::uint64_t{0});
  CHECK(!Arenas().attached());
  const Arenas arenas = two_arenas();
  CHECK_EQ(arenas.without(), ~std::uint64_t{3});
  CHECK(arenas.has_room(5, 123'456, 1 << 20, 1));  // the stream has no arena yet
}

TEST(a_slot_has_room_in_the_arena_of_its_own_stream_only) {
  const Arenas arenas = two_arenas();
  CHECK(arenas.has_room(0, 0, 1000, 1));
  CHECK(!arenas.has_room(0, 0, 1001, 1));
  CHECK(!arenas.has_room(0, 1000, 10, 1));
  CHECK(arenas.has_room(1, 1000, 2000, 1));
  CHECK(!arenas.has_room(1, 999, 10, 1));
  CHECK(!arenas.has_room(1, 2991, 10, 1));
}

TEST(a_slot_has_to_be_aligned_in_its_arena_as_in_its_plan) {
  const Arenas arenas = two_arenas();
  CHECK(arenas.has_room(1, 1024, 10, 8));
  CHECK(!arenas.has_room(1, 1024, 10, 32));
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
  CHECK_EQ(arenas.address(3, 0), kA);
}

TEST(an_arena_that_is_no_range_of_memory_or_of_offsets_is_refused) {
  Arenas arenas;
  CHECK_THROWS(arenas.add(segment(0, 0, 0, 1000)), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(0, 0, kA, 0)), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(0, 0, kA, ~std::size_t{0})), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(0, 0, kA, std::size_t{1} << 63)), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(0, -1, kA, 1000)), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(0, Arenas::kMostOffsets - 999, kA, 1000)), std::invalid_argument);
  CHECK_THROWS(arenas.add(segment(0, ~(Offset{1} << 63), kA, 1000)), std::invalid_argument);
  CHECK(!arenas.attached());
  arenas.add(segment(0, Arenas::kMostOffsets - 1000, kA, 1000));
  CHECK_EQ(arenas.address(0, Arenas::kMostOffsets - 1), kA + 999);
}

TEST(only_so_many_streams_have_an_arena_of_their_own) {
  Arenas arenas;
  for (std::uint32_t stream = 0; stream < Arenas::kMostStreams; ++stream) {
    arenas.add(segment(stream, 1000 * stream, kA + 0x10000 * stream, 1000));
  }
  CHECK_THROWS(arenas.add(segment(Arenas::kMostStreams, 1'000'000, kB, 1000)),
               std::invalid_argument);
  // Even if all streams below kMostStreams have arenas, further streams are known to have none.
  CHECK(arenas.without() != 0);
  CHECK_EQ(arenas.address(Arenas::kMostStreams - 1, 1000 * (Arenas::kMostStreams - 1)),
           kA + 0x10000 * (Arenas::kMostStreams - 1));
}

TEST(spilled_blocks_lie_behind_all_arenas) {
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
  CHECK(arenas.at(0x2000000)->spilled());
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
  CHECK(!arenas.release_retired(kA + 40));  // the arena is gone
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
  CHECK(failures >= 4);  // allocations for two vectors and two parts
  CHECK(late_blocks(arenas, late) == before);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
