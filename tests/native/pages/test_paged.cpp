// Tests of an engine with arenas of pages, one rule at a time. fuzz_paged.cpp tests all rules at
// once.

#include <vector>

#include "check.hpp"
#include "engine_fixture.hpp"
#include "failing_new.hpp"
#include "fake_device.hpp"
#include "pages/space.hpp"
#include "pages_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;
using pages::Space;

namespace {

constexpr pages::Stream kPagesStream = 0;

// One stream; each slot is as large as a page.
struct Paged {
  explicit Paged(std::size_t card)
      : device(card),
        space(device, properties_of(device), heuristics_for(device)),
        engine(heuristics_for(device)),
        page(device.page()) {}
  ~Paged() { engine.detach_arena(); }

  void serve(Bytes slots) {
    std::vector<PlannedRequest> rows;
    for (Bytes at = 0; at < slots; ++at) {
      rows.push_back(slot(page, static_cast<Tick>(slots), at * page));
    }
    const pgmo_arena arena = engine.reserve_arena(space, slots * page, kPagesStream);
    engine.add_arena(kStream, 0, arena);
    static constexpr std::uint64_t kStreamNumbers[] = {kStream};
    engine.add_plan(rows, {kStreamNumbers, 1}, slots * page, 1);
    engine.start_serving();
  }
  // Request a block as an adapter does: a window or the framework serves a request without a slot.
  void* request(Bytes bytes) {
    void* served = engine.allocate(static_cast<std::size_t>(bytes), kStream);
    if (served != nullptr) return served;
    const pages::Address window = space.allocate(bytes, kPagesStream);
    if (window == 0) return nullptr;
    served = reinterpret_cast<void*>(window);
    (void)engine.adopt(served, static_cast<std::size_t>(bytes), kStream);
    return served;
  }
  void free(void* block) {
    if (!engine.release(block)) {
      CHECK(space.deallocate(reinterpret_cast<pages::Address>(block)));
    }
  }

  FakeDevice device;
  Space space;
  Engine engine;
  Bytes page;
};

}  // namespace

TEST(a_slot_that_finds_no_page_is_recorded_where_it_is_served_in_the_end) {
  Paged f(2);
  f.serve(3);
  f.engine.start_recording();
  void* const first = f.request(f.page);
  f.device.refuse_create = true;
  CHECK(f.engine.allocate(static_cast<std::size_t>(f.page), kStream) == nullptr);
  f.device.refuse_create = false;
  void* const second = f.request(f.page / 4);  // the program's next request
  f.free(second);
  f.free(first);
  f.engine.stop_recording();
  const std::vector<Event> events = f.engine.events();
  const Event::Kind kinds[] = {Event::kRequest, Event::kRequest, Event::kFree, Event::kFree};
  CHECK_EQ(events.size(), 4u);
  for (std::size_t at = 0; at < 4; ++at) CHECK(events.at(at).kind == kinds[at]);
  CHECK_EQ(events.at(0).bytes, f.page);
  CHECK_EQ(events.at(1).bytes, f.page / 4);
  CHECK_EQ(f.engine.statistics().slots.live, 0);
}

TEST(slots_that_were_refused_are_free_again) {
  Paged f(3);
  f.serve(3);
  f.device.refuse_create = true;
  for (int times = 0; times < 3; ++times) {
    CHECK(f.engine.allocate(static_cast<std::size_t>(f.page), kStream) == nullptr);
  }
  f.engine.end_iteration();
  f.device.refuse_create = false;
  for (int times = 0; times < 3; ++times) {
    void* const block = f.engine.allocate(static_cast<std::size_t>(f.page), kStream);
    CHECK(block != nullptr);
    f.free(block);
  }
  CHECK_EQ(f.engine.statistics().slots.live, 0);
}

// The arenas of two streams, with one slot each, one after the other.
TEST(pages_are_shared_later_if_the_host_has_no_memory_now) {
  bool happened = true;
  for (int after = 0; happened; ++after) {
    Paged f(2);
    const std::vector<PlannedRequest> rows = {slot(f.page, 1, 0, 0), slot(f.page, 2, f.page, 1)};
    for (const std::uint32_t stream : {0u, 1u}) {
      const pgmo_arena arena = f.engine.reserve_arena(f.space, f.page, stream);
      f.engine.add_arena(kStreams[stream], stream * f.page, arena);
    }
    f.engine.add_plan(rows, kStreams, 2 * f.page, 1);
    {
      const FailingAllocation failing(after);
      f.engine.start_serving();
      happened = failing.happened();
    }
    f.engine.end_iteration();
    CHECK_EQ(f.engine.statistics().planned_pages, f.page);
  }
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
