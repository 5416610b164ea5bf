#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "engine_fixture.hpp"
#include "failing_new.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

constexpr std::size_t kShare = 39;  // of 10'000 bytes, the framework's: 1/256
constexpr std::uintptr_t kElsewhere = 0x900000;

struct Hosting : Fixture {
  explicit Hosting(const std::vector<PlannedRequest>& rows = kTwoSlots) {
    serve(rows);
    engine.host_guests(64);
  }
  std::uint64_t guests() { return engine.statistics().counters.guests; }
  // Of a size that no plan has.
  std::uintptr_t stranger(std::size_t bytes = 777) { return allocate(bytes); }
};

const std::vector<PlannedRequest> kApart = {slot(100, 2, 0, 0), slot(200, 2, 4000, 1)};

struct TwoStreams : Fixture {
  TwoStreams() {
    engine.add_arena(kStream, 0, range(0, 4000));
    engine.add_arena(kOtherStream, 4000, range(1, 2000));
    add(kApart);
    engine.start_serving();
    engine.host_guests(64);
  }
};

}  // namespace

TEST(a_request_without_a_slot_gets_a_gap) {
  Hosting f;
  CHECK_EQ(f.allocate(100), f.base(0));
  const std::uintptr_t guest = f.stranger();
  CHECK_EQ(guest, f.base(0) + 128);
  CHECK_EQ(f.allocate(200), f.base(0) + 1000);
  CHECK(f.owns(guest));
  CHECK_EQ(f.engine.size_of(reinterpret_cast<void*>(guest)), 777);
  const Statistics all = f.engine.statistics();
  CHECK_EQ(all.counters.requests, 3u);
  CHECK_EQ(all.counters.hits, 2u);
  CHECK_EQ(all.counters.hit_bytes, 300u);
  CHECK_EQ(all.counters.misses[static_cast<int>(Miss::kUnknown)], 1u);
  CHECK_EQ(all.counters.guests, 1u);
  CHECK_EQ(all.counters.guest_bytes, 777u);
  CHECK_EQ(all.counters.late, 0u);  // it has not become late
  CHECK_EQ(all.slots.live, 1077);
  CHECK_EQ(all.late_now, 1u);
  CHECK(f.release(guest));
  CHECK_EQ(f.engine.statistics().slots.live, 300);
  CHECK_EQ(f.engine.statistics().late_now, 0u);
}

TEST(a_guest_is_told_as_a_late_block) {
  Hosting f;
  const std::uintptr_t guest = f.stranger();
  const std::vector<Living> living = f.engine.living();
  CHECK_EQ(living.size(), 1u);
  CHECK_EQ(living.at(0).address, guest);
  CHECK_EQ(living.at(0).bytes, 777);
  CHECK_EQ(living.at(0).kind, static_cast<std::uint32_t>(Living::kLate));
  CHECK_EQ(living.at(0).plan, Living::kNone);
}

TEST(guests_are_hosted_only_when_that_is_asked_for) {
  Fixture f;
  f.serve(kTwoSlots);
  CHECK_EQ(f.allocate(777), 0u);
  f.engine.host_guests(64);
  CHECK(f.allocate(777) != 0);
  f.engine.host_guests(0);
  CHECK_EQ(f.allocate(777), 0u);
  CHECK_THROWS(f.engine.host_guests(-1), std::invalid_argument);
  CHECK_THROWS(f.engine.host_guests(kLargestRequest + 1), std::invalid_argument);
  CHECK_EQ(f.engine.statistics().counters.guests, 1u);
}

TEST(the_framework_gets_its_share_first) {
  Hosting f;
  f.allocate(100);
  CHECK_EQ(f.stranger(30), 0u);
  f.adopt(kElsewhere, 30);
  CHECK_EQ(f.stranger(kShare - 30), 0u);  // not adopted: the framework had no memory
  CHECK(f.stranger(kShare - 30 + 1) != 0);
  CHECK(!f.release(kElsewhere));
  CHECK_EQ(f.stranger(30), 0u);  // that much again, now that the other one has died
  CHECK(f.stranger(kShare + 1) != 0);
  CHECK_EQ(f.guests(), 2u);
}

TEST(the_share_is_that_of_one_iteration) {
  Hosting f;
  f.allocate(100);
  CHECK_EQ(f.stranger(30), 0u);
  f.adopt(kElsewhere, 30);
  f.engine.end_iteration();
  f.allocate(100);
  CHECK_EQ(f.stranger(30), 0u);
  f.adopt(kElsewhere + 100, 30);
  f.release(kElsewhere);  // of the iteration before, so it makes no room in this one
  CHECK(f.stranger(10) != 0);
  f.release(kElsewhere + 100);
  CHECK_EQ(f.stranger(10), 0u);
}

TEST(a_block_that_cannot_be_tracked_is_none_of_the_share) {
  Hosting f;
  f.allocate(100);
  for (std::uintptr_t block = 1; block <= 512; ++block) f.adopt(kElsewhere * block, 1000);
  CHECK_EQ(f.stranger(30), 0u);
  {
    const FailingAllocation failing(0);
    CHECK(!f.adopt(kElsewhere + 100, 30));
    CHECK(failing.happened());
  }
  CHECK_EQ(f.stranger(30), 0u);
  CHECK(f.adopt(kElsewhere + 100, 30));
  CHECK(f.stranger(30) != 0);
}

TEST(what_lives_on_between_the_planned_requests_is_no_guest) {
  Hosting f;
  CHECK_EQ(f.stranger(30), 0u);
  f.adopt(kElsewhere, 30);
  CHECK_EQ(f.stranger(), 0u);  // a copy of the model's, perhaps
  CHECK_EQ(f.engine.statistics().counters.declined, 1u);
  f.release(kElsewhere);
  CHECK(f.stranger() != 0);  // but blocks that die are an evaluation's
  CHECK_EQ(f.engine.statistics().counters.declined, 1u);
}

TEST(guests_keep_out_of_large_slots_while_there_is_room_elsewhere) {
  Hosting f({slot(100, 2, 0), slot(4000, 2, 1000)});
  CHECK_EQ(f.allocate(100), f.base(0));
  CHECK_EQ(f.stranger(300), f.base(0) + 128);
  CHECK_EQ(f.stranger(300), f.base(0) + 448);
  CHECK_EQ(f.stranger(300), f.base(0) + 5056);  // not 768, which reaches into the large slot
  CHECK_EQ(f.allocate(4000), f.base(0) + 1000);
}

TEST(guests_lie_in_large_slots_where_there_is_no_other_room) {
  Hosting f({slot(100, 2, 0), slot(9800, 2, 128)});
  CHECK_EQ(f.allocate(100), f.base(0));
  CHECK_EQ(f.stranger(300), f.base(0) + 128);
  CHECK_EQ(f.missed(Miss::kUnknown), 1u);
  CHECK_EQ(f.allocate(9800), 0u);
}

TEST(after_a_guest_nothing_is_known_of_the_next_block_of_the_framework) {
  Hosting f({varying(100, 2, 0), slot(50, 2, 500)});
  CHECK(f.allocate(101) != 0);
  CHECK_EQ(f.missed(Miss::kTooLarge), 1u);
  f.adopt(kElsewhere, 30);
  for (const Living& one : f.engine.living()) CHECK_EQ(one.request, Living::kNone);
  CHECK_EQ(f.stranger(30), 0u);  // nor is it of the share
}

TEST(what_was_refused_is_forgotten_by_a_request_that_is_too_large_for_anything) {
  Fixture f;
  f.serve({varying(100, 2, 0), slot(50, 2, 500)});
  CHECK_EQ(f.allocate(101), 0u);  // and the framework has none either
  CHECK_EQ(f.allocate(std::size_t{1} << 50), 0u);
  f.adopt(kElsewhere, 30);
  CHECK_EQ(f.engine.living().at(0).request, Living::kNone);
}

TEST(what_was_refused_is_nothing_to_another_engine_in_its_place) {
  std::optional<Hosting> f;
  f.emplace();
  CHECK_EQ(f->stranger(30), 0u);
  f.emplace();
  f->adopt(kElsewhere, 30);
  CHECK_EQ(f->stranger(30), 0u);
}

TEST(blocks_that_live_for_good_are_no_guests_and_none_of_the_share) {
  Hosting f({persistent(500), slot(100, 2, 0)});
  CHECK_EQ(f.allocate(500), 0u);
  f.adopt(kElsewhere, 500);
  CHECK_EQ(f.missed(Miss::kPersistent), 1u);
  CHECK_EQ(f.stranger(30), 0u);
  CHECK_EQ(f.guests(), 0u);
}

TEST(a_slot_waits_until_its_guest_has_died) {
  Hosting f;
  const std::uintptr_t guest = f.stranger(8000);
  CHECK_EQ(guest, f.base(0));
  const std::uintptr_t displaced = f.allocate(100);
  CHECK_EQ(displaced, f.base(0) + 8000);  // a guest itself
  CHECK_EQ(f.missed(Miss::kLate), 1u);
  f.release(guest);
  CHECK_EQ(f.allocate(200), f.base(0) + 1000);
  f.release(f.base(0) + 1000);
  f.engine.end_iteration();
  CHECK_EQ(f.allocate(100), f.base(0));
  CHECK_EQ(f.guests(), 2u);
}

TEST(guests_lie_beside_slots_and_late_blocks_and_each_other) {
  Hosting f({slot(100, 1, 0), slot(200, 2, 1000)});
  f.allocate(100);
  f.allocate(200);
  CHECK_EQ(f.engine.statistics().counters.late, 1u);
  CHECK_EQ(f.stranger(900), f.base(0) + 1216);
  CHECK_EQ(f.stranger(872), f.base(0) + 128);  // up to the second slot, to the byte
  CHECK_EQ(f.stranger(40), f.base(0) + 2176);
  CHECK_EQ(f.stranger(8000), 0u);
  CHECK_EQ(f.guests(), 3u);
}

TEST(slots_that_share_a_multiple_of_the_alignment_are_both_left_alone) {
  Fixture f;
  f.serve({slot(100, 3, 0), slot(100, 3, 100), slot(9400, 3, 600)});
  f.engine.host_guests(512);
  for (const std::size_t bytes : {100, 100, 9400}) f.allocate(bytes);
  CHECK_EQ(f.allocate(89), 0u);  // of the 400 bytes that are free most lie before a multiple
  f.release(f.base(0));
  CHECK_EQ(f.allocate(101), 0u);
  CHECK_EQ(f.allocate(88), f.base(0) + 512);
  f.release(f.base(0) + 100);
  CHECK_EQ(f.allocate(101), f.base(0));
}

TEST(a_guest_of_a_stream_lies_in_its_arena) {
  TwoStreams f;
  CHECK_EQ(f.allocate(150, kStream), f.base(0));
  CHECK_EQ(f.allocate(150, kOtherStream), f.base(1));
  CHECK_EQ(f.allocate(1900, kOtherStream), 0u);  // though the other arena has room
  CHECK_EQ(f.allocate(1800, kOtherStream), f.base(1) + 192);
  CHECK_EQ(f.allocate(150, 0xabc), 0u);
  CHECK(f.shared(f.base(1), kStream));
  CHECK(!f.shared(f.base(1), kOtherStream));
  CHECK(f.release(f.base(1)));
  CHECK_EQ(f.allocate(192, kOtherStream), f.base(1));
}

TEST(a_stream_without_an_arena_has_no_guests) {
  Fixture f;
  f.engine.add_arena(kStream, 0, f.range(0, 4000));
  f.add(kApart);
  f.engine.start_serving();
  f.engine.host_guests(64);
  CHECK_EQ(f.allocate(150, kStream), f.base(0));
  CHECK_EQ(f.allocate(200, kOtherStream), 0u);
  CHECK_EQ(f.missed(Miss::kNoArena), 1u);
  f.engine.add_arena(kOtherStream, 4000, f.range(1, 2000));
  CHECK_EQ(f.allocate(150, kOtherStream), f.base(1));
  CHECK_EQ(f.allocate(150, kStream), f.base(0) + 192);
}

TEST(guests_die_while_everything_is_delegated) {
  Hosting f;
  const std::uintptr_t first = f.stranger();
  const std::uintptr_t second = f.stranger();
  f.engine.pause();
  CHECK_EQ(f.stranger(), 0u);
  CHECK(f.release(first));
  f.engine.resume();
  CHECK_EQ(f.stranger(), first);
  f.engine.stop_serving();
  CHECK(f.release(second));
  CHECK_EQ(f.engine.statistics().slots.live, 777);
}

TEST(a_guest_keeps_an_arena_that_serves_no_more) {
  Hosting f;
  const std::uintptr_t guest = f.stranger();
  f.attach(1);
  CHECK_EQ(f.given_back(), 0);
  CHECK_EQ(f.stranger(), f.base(1));
  CHECK_EQ(f.allocate(100), f.base(1) + 832);  // its slot is taken
  f.engine.detach_arena();
  CHECK(f.release(guest));
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.returned[1], 0);
  CHECK(f.release(f.base(1) + 832));
  CHECK(f.release(f.base(1)));
  CHECK_EQ(f.returned[1], 1);
  CHECK_EQ(f.engine.statistics().slots.live, 0);
  CHECK_EQ(f.engine.statistics().late_now, 0u);
}

TEST(an_outgrown_iteration_yields_its_arena_rather_than_to_host_it) {
  Hosting f({slot(50, 2, 9000), varying(100, 2, 0)});
  f.engine.yield_when_outgrown(true);
  const std::uintptr_t guest = f.stranger(5000);
  CHECK_EQ(guest, f.base(0));
  f.release(f.allocate(50));
  CHECK_EQ(f.allocate(101), 0u);
  CHECK(!f.engine.has_arena());
  CHECK_EQ(f.returned[0], 0);
  CHECK(f.release(guest));
  CHECK_EQ(f.returned[0], 1);
  CHECK_EQ(f.stranger(), 0u);
}

TEST(guests_outlive_their_plans) {
  Hosting f;
  f.add({slot(300, 2, 64), slot(400, 2, 2000)});
  f.allocate(100);
  const std::uintptr_t guest = f.stranger();
  f.engine.select_plan(1);
  const std::uintptr_t displaced = f.allocate(300);
  CHECK_EQ(f.missed(Miss::kLate), 1u);
  CHECK(displaced >= guest + 777);
  f.engine.remove_plans();
  f.add({slot(500, 1, 128)});
  f.engine.start_serving();
  CHECK(f.allocate(500) != guest);
  CHECK_EQ(f.missed(Miss::kLate), 2u);
  f.engine.end_iteration();
  CHECK(f.release(guest));
  CHECK_EQ(f.allocate(500), guest);  // the slot, at last
  CHECK_EQ(f.engine.statistics().counters.hits, 2u);
}

TEST(no_block_is_settled_over_a_guest_nor_a_guest_over_it) {
  Hosting f({slot(10, 2, 5000), slot(100, 3, 0)});
  const std::uintptr_t guest = f.stranger();
  CHECK_EQ(guest, f.base(0));
  f.engine.end_iteration();
  CHECK_EQ(f.engine.resettle(1, 100), 0u);
  f.release(guest);
  CHECK_EQ(f.engine.resettle(1, 100), f.base(0));
  CHECK_EQ(f.stranger(), f.base(0) + 128);
}

TEST(a_guest_is_recorded_like_any_block) {
  Hosting f;
  f.engine.start_recording();
  const std::uintptr_t guest = f.stranger();
  f.shared(guest, kOtherStream);
  f.release(guest);
  const std::vector<Event> events = f.engine.events(0);
  CHECK_EQ(events.size(), 3u);
  CHECK_EQ(events.at(0).bytes, 777);
}

TEST(without_memory_a_guest_goes_to_the_framework_and_nothing_is_lost) {
  Hosting f;
  f.allocate(100);
  std::uintptr_t guest = 0;
  int failures = 0;
  for (int after = 0; guest == 0 && after < 50; ++after) {
    const FailingAllocation failing(after);
    guest = f.stranger();
    failures += failing.happened();
    CHECK_EQ(f.guests(), guest != 0 ? 1u : 0u);
    CHECK_EQ(f.engine.statistics().late_now, guest != 0 ? 1u : 0u);
    CHECK_EQ(f.engine.statistics().slots.live, guest != 0 ? 877 : 100);
  }
  CHECK(failures >= 4);
  CHECK_EQ(guest, f.base(0) + 128);
  CHECK_EQ(f.stranger(), f.base(0) + 960);
  CHECK_EQ(f.missed(Miss::kUnknown), static_cast<std::uint64_t>(failures) + 2);
}

TEST(gaps_that_could_not_be_kept_are_found_again) {
  int failures = 0;
  for (int after = 0; after < 4; ++after) {
    Hosting f;
    const std::uintptr_t first = f.stranger();
    CHECK_EQ(f.stranger(), first + 832);
    {
      const FailingAllocation failing(after);
      CHECK(f.release(first));
      failures += failing.happened();
    }
    CHECK_EQ(f.stranger(), first);
    CHECK(f.release(first));
    {
      const FailingAllocation failing(after);
      CHECK_EQ(f.allocate(100), f.base(0));
      failures += failing.happened();
    }
    CHECK_EQ(f.stranger(), first + 1664);
    CHECK_EQ(f.stranger(600), first + 128);
  }
  CHECK(failures >= 4);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
