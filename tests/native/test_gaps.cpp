#include <cstdint>
#include <map>
#include <vector>

#include "check.hpp"
#include "engine/memory/gaps.hpp"
#include "random_plan.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

using Ranges = std::vector<Gaps::Range>;

// One flag for each byte of an arena, and no idea of how gaps are kept.
class ByteMap {
 public:
  ByteMap(Gaps::Range whole, Bytes alignment)
      : begin_(whole.begin),
        alignment_(alignment),
        taken_(static_cast<std::size_t>(whole.end - whole.begin)) {}

  void set(Offset offset, Bytes bytes, bool taken) {
    for (Offset at = offset; at < offset + bytes; ++at) {
      taken_[static_cast<std::size_t>(at - begin_)] = taken;
    }
  }

  // The lowest aligned offset in the smallest free run that has room from there on.
  Offset best(Bytes bytes) const {
    Offset found = kUnplanned;
    Bytes smallest = 0;
    const auto size = static_cast<Bytes>(taken_.size());
    for (Bytes run = 0, end = 0; run < size; run = end + 1) {
      for (end = run; end < size && !taken_[static_cast<std::size_t>(end)];) ++end;
      const Bytes at = (run + alignment_ - 1) / alignment_ * alignment_;
      if (end - at < bytes || (found != kUnplanned && end - at >= smallest)) continue;
      found = begin_ + at;
      smallest = end - at;
    }
    return found;
  }

 private:
  Offset begin_;
  Bytes alignment_;
  std::vector<bool> taken_;
};

}  // namespace

TEST(an_empty_arena_is_one_gap) {
  const Gaps gaps({1000, 2000}, Ranges{}, 64);
  CHECK_EQ(gaps.find(1), 1000);
  CHECK_EQ(gaps.find(1000), 1000);
  CHECK_EQ(gaps.find(1001), kUnplanned);
}

TEST(the_smallest_gap_that_is_large_enough_is_found) {
  const Ranges living = {{0, 100}, {300, 400}, {450, 500}, {580, 1000}};
  const Gaps gaps({0, 1100}, living, 1);
  CHECK_EQ(gaps.find(50), 400);
  CHECK_EQ(gaps.find(51), 500);
  CHECK_EQ(gaps.find(81), 1000);
  CHECK_EQ(gaps.find(101), 100);
  CHECK_EQ(gaps.find(201), kUnplanned);
}

TEST(what_lies_before_the_first_multiple_is_no_room) {
  const Ranges living = {{0, 1}, {128, 200}};
  const Gaps gaps({0, 300}, living, 64);
  CHECK_EQ(gaps.find(64), 64);
  CHECK_EQ(gaps.find(65), kUnplanned);  // 44 bytes behind 256
  CHECK_EQ(gaps.find(44), 256);
}

TEST(multiples_count_from_the_start_of_the_arena) {
  const Ranges living = {{100, 101}};
  const Gaps gaps({100, 400}, living, 64);
  CHECK_EQ(gaps.find(100), 164);
}

TEST(blocks_of_other_arenas_are_left_out_of_account) {
  const Ranges living = {{0, 1000}, {1200, 1300}, {2000, 2500}};
  const Gaps gaps({1000, 2000}, living, 1);
  CHECK_EQ(gaps.find(200), 1000);
  CHECK_EQ(gaps.find(700), 1300);
  CHECK_EQ(gaps.find(701), kUnplanned);
}

TEST(blocks_that_share_a_multiple_are_free_when_both_are) {
  const Ranges living = {{0, 100}, {100, 200}, {512, 600}};
  Gaps gaps({0, 1024}, living, 512);
  gaps.free(0, 100);
  CHECK_EQ(gaps.find(101), kUnplanned);
  CHECK_EQ(gaps.find(100), 0);
  gaps.free(100, 100);
  CHECK_EQ(gaps.find(512), 0);
}

TEST(what_does_not_lie_in_a_gap_cannot_be_taken) {
  const Ranges living = {{0, 100}, {200, 300}};
  Gaps gaps({0, 400}, living, 1);
  CHECK(!gaps.take(0, 10));
  CHECK(!gaps.take(150, 51));
  CHECK(!gaps.take(300, 101));
  CHECK(gaps.take(150, 50));
  CHECK_EQ(gaps.find(50), 100);
  CHECK(gaps.take(300, 100));
  CHECK_EQ(gaps.find(51), kUnplanned);
}

TEST(where_no_block_was_nothing_becomes_free) {
  const Ranges living = {{100, 200}};
  Gaps gaps({0, 300}, living, 1);
  for (const Offset offset : {0, 50, 100, 150, 200, 299}) gaps.free(offset, 0);
  CHECK_EQ(gaps.find(101), kUnplanned);
  CHECK_EQ(gaps.find(100), 0);
  CHECK(gaps.take(0, 100));
  CHECK_EQ(gaps.find(100), 200);
}

TEST(gaps_are_those_of_a_map_of_bytes) {
  static const std::vector<Bytes> kAlignments = {1, 3, 16, 64, 512};
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    const Offset begin = random.chance(0.5) ? 0 : random.between(1, 5000);
    const Gaps::Range whole{begin, begin + random.between(1, 6000)};
    const Bytes alignment = random.pick(kAlignments);
    ByteMap bytes(whole, alignment);
    std::map<Offset, Bytes> living;
    Gaps gaps(whole, Ranges{}, alignment);
    for (int step = 0; step < 300; ++step) {
      const Bytes size = random.between(1, random.chance(0.8) ? 300 : 3000);
      const Offset found = gaps.find(size);
      CHECK_EQ(found, bytes.best(size));
      if (found != kUnplanned && random.chance(0.7)) {
        // Slots lie anywhere in a gap, also where no guest would.
        const Bytes less = random.chance(0.3) ? random.between(0, size - 1) : 0;
        CHECK(gaps.take(found + less, size - less));
        bytes.set(found + less, size - less, true);
        living.emplace(found + less, size - less);
      }
      while (!living.empty() && random.chance(0.4)) {
        auto one = living.lower_bound(random.between(whole.begin, whole.end));
        if (one == living.end()) one = living.begin();
        gaps.free(one->first, one->second);
        bytes.set(one->first, one->second, false);
        living.erase(one);
      }
      if (random.chance(0.02)) {
        Ranges ranges;
        for (const auto& [offset, length] : living) ranges.push_back({offset, offset + length});
        gaps = Gaps(whole, ranges, alignment);
      }
    }
  }
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
