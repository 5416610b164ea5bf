// Plans that are made larger: sizes by their laws, and no two slots that meet.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "engine/replay/stretch.hpp"
#include "random.hpp"
#include "random_plan.hpp"
#include "rows.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

PlannedRequest seen(PlannedRequest row, Bytes shorter) {
  row.varying = true;
  row.shorter = shorter;
  return row;
}

std::vector<PlannedRequest> larger(const std::vector<PlannedRequest>& plan, SlotIndex request,
                                   Bytes bytes, Bytes alignment = 1) {
  const auto rows = stretch(plan, request, bytes, alignment);
  CHECK(rows.has_value());
  return rows.value_or(plan);
}

bool lives_at(const PlannedRequest& row, Tick start, Tick ticks, Tick tick) {
  if (row.alternate != kUnplanned) return true;
  return (tick >= start && tick < row.end) || tick < row.end - ticks;
}

// By looking at each pair and each tick.
bool meets(const std::vector<PlannedRequest>& rows) {
  const auto ticks = static_cast<Tick>(rows.size());
  struct Slot {
    Offset offset;
    std::size_t row;
  };
  std::vector<Slot> slots;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].offset != kUnplanned) slots.push_back({rows[row].offset, row});
    if (rows[row].alternate != kUnplanned) slots.push_back({rows[row].alternate, row});
  }
  for (std::size_t a = 0; a < slots.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const PlannedRequest& one = rows[slots[a].row];
      const PlannedRequest& other = rows[slots[b].row];
      if (slots[a].offset >= slots[b].offset + other.bytes) continue;
      if (slots[b].offset >= slots[a].offset + one.bytes) continue;
      for (Tick tick = 0; tick < ticks; ++tick) {
        if (lives_at(one, static_cast<Tick>(slots[a].row), ticks, tick) &&
            lives_at(other, static_cast<Tick>(slots[b].row), ticks, tick)) {
          return true;
        }
      }
    }
  }
  return false;
}

}  // namespace

TEST(sizes_in_proportion_to_a_length_its_square_and_on_a_line_are_met) {
  const std::vector<PlannedRequest> plan = {seen(slot(800, 4, 0), 400),
                                            seen(slot(6400, 4, 800), 1600),
                                            seen(slot(850, 4, 7200), 450), slot(100, 4, 8050)};
  const auto rows = larger(plan, 0, 1200);
  CHECK_EQ(rows[0].bytes, 1200);
  CHECK_EQ(rows[1].bytes, 14400);
  CHECK_EQ(rows[2].bytes, 1250);
  CHECK_EQ(rows[3].bytes, 100);
}

TEST(a_size_that_was_seen_once_is_taken_to_be_in_proportion) {
  PlannedRequest once = varying(64, 2, 100);
  const auto rows = larger({seen(slot(100, 2, 0), 50), once}, 0, 150);
  CHECK_EQ(rows[1].bytes, 96);
}

TEST(what_does_not_grow_keeps_its_size_and_place) {
  const std::vector<PlannedRequest> plan = {slot(64, 3, 0), seen(slot(32, 3, 64), 32),
                                            seen(slot(100, 3, 96), 50)};
  const auto rows = larger(plan, 2, 300);
  CHECK_EQ(rows[0].offset, 0);
  CHECK_EQ(rows[1].offset, 64);
  CHECK_EQ(rows[1].bytes, 32);
  CHECK_EQ(rows[2].offset, 96);
}

TEST(slots_above_one_that_grows_move_up_and_others_do_not) {
  const std::vector<PlannedRequest> plan = {seen(slot(100, 2, 0), 50), slot(10, 2, 112),
                                            slot(10, 3, 0)};  // where the first one is dead
  const auto rows = larger(plan, 0, 160, 16);
  CHECK_EQ(rows[0].offset, 0);
  CHECK_EQ(rows[1].offset, 160);
  CHECK_EQ(rows[2].offset, 0);
}

TEST(without_two_lengths_of_the_request_nothing_is_known) {
  CHECK(!stretch(std::vector<PlannedRequest>{varying(8, 1, 0)}, 0, 16, 1).has_value());
  CHECK(!stretch(std::vector<PlannedRequest>{seen(slot(8, 1, 0), 8)}, 0, 16, 1).has_value());
  CHECK(!stretch(std::vector<PlannedRequest>{seen(slot(8, 1, 0), 4)}, 0, 8, 1).has_value());
}

TEST(no_two_slots_that_live_at_once_meet_in_a_stretched_plan) {
  Random random(7);
  int stretched = 0;
  for (int round = 0; round < 400; ++round) {
    PlanStyle style = random_style(random);
    style.ticks = random.between(2, 40);
    style.varying = 0.6;
    RandomPlan plan = random_plan(random, style);
    for (PlannedRequest& row : plan.rows) {
      if (row.varying && random.chance(0.8)) row.shorter = random.between(1, row.bytes);
    }
    for (int times = 0; times < 3; ++times) {
      const auto request = static_cast<SlotIndex>(random.between(0, style.ticks - 1));
      const Bytes bytes = plan.rows[request].bytes + random.between(1, 4000);
      const auto rows = stretch(plan.rows, request, bytes, plan.alignment);
      if (!rows || bytes > kLargestRequest) continue;
      ++stretched;
      CHECK(!meets(*rows));
      CHECK((*rows)[request].bytes >= bytes);
      for (std::size_t row = 0; row < rows->size(); ++row) {
        CHECK((*rows)[row].bytes >= plan.rows[row].bytes);
        if (plan.rows[row].offset == kUnplanned) continue;
        CHECK((*rows)[row].offset >= plan.rows[row].offset);
        CHECK_EQ((*rows)[row].offset % plan.alignment, 0);
      }
      plan.rows = *rows;
    }
  }
  CHECK(stretched > 100);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
