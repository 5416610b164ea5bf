#include "check.hpp"
#include "engine/replay/late_set.hpp"

using pgmo::LateSet;

TEST(an_empty_set_overlaps_nothing) {
  const LateSet late;
  CHECK(late.empty());
  CHECK(!late.overlaps(0, 1 << 30));
}

TEST(ranges_are_half_open) {
  LateSet late;
  late.insert(100, 50);
  CHECK(late.overlaps(100, 50));
  CHECK(late.overlaps(149, 1));
  CHECK(late.overlaps(99, 2));
  CHECK(late.overlaps(0, 1000));
  CHECK(late.overlaps(120, 1));
  CHECK(!late.overlaps(150, 10));
  CHECK(!late.overlaps(90, 10));
}

TEST(looks_at_both_neighbours) {
  LateSet late;
  late.insert(0, 10);
  late.insert(100, 10);
  CHECK(!late.overlaps(10, 90));
  CHECK(late.overlaps(9, 90));
  CHECK(late.overlaps(10, 91));
  CHECK(!late.overlaps(110, 5));
}

TEST(an_erased_block_no_longer_counts) {
  LateSet late;
  late.insert(64, 32);
  CHECK_EQ(late.erase(65), 0);
  CHECK_EQ(late.erase(64), 32);
  CHECK_EQ(late.erase(64), 0);
  CHECK(!late.overlaps(64, 32));
  CHECK(late.empty());
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
