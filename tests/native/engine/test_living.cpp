#include <algorithm>
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "engine_fixture.hpp"
#include "failing_new.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

// The block of request 1 lives into the next iteration. Request 2 has two slots, used in turn.
const std::vector<PlannedRequest> kWrapping = {slot(100, 2, 0), slot(200, 4, 1000),
                                               two_turns(300, 6, 2000, 3000)};

// Address of the framework blocks of these tests.
constexpr std::uintptr_t kForeign = 0x1000;

struct Alive : Fixture {
  std::size_t alive() { return engine.living().size(); }

  // Return the entry of one block. Its kind is ~0 if the engine does not list it.
  Living find(std::uintptr_t address) {
    const std::vector<Living> all = engine.living();
    const auto same = [&](const Living& block) { return block.address == address; };
    CHECK(std::count_if(all.begin(), all.end(), same) <= 1);
    const auto found = std::find_if(all.begin(), all.end(), same);
    return found != all.end() ? *found : Living{address, -1, ~std::uint64_t{0}};
  }

  // Run an iteration of kWrapping that frees no block.
  void iterate() {
    allocate(100);
    allocate(200);
    allocate(300);
    engine.end_iteration();
  }
};

void check_living(const Living& block, Bytes bytes, std::uint64_t kind, int line) {
  check_equal(block.bytes, bytes, "bytes", __FILE__, line);
  check_equal(block.kind, kind, "kind", __FILE__, line);
}

}  // namespace

#define CHECK_LIVING(block, bytes, kind) check_living(block, bytes, kind, __LINE__)

TEST(nothing_is_alive_in_a_new_engine) {
  Alive f;
  CHECK_EQ(f.alive(), 0u);
  f.serve(kWrapping);
  CHECK_EQ(f.alive(), 0u);
}

TEST(slots_are_alive) {
  Alive f;
  f.serve(kWrapping);
  f.iterate();
  f.release(f.base(0));
  CHECK_EQ(f.alive(), 2u);
  CHECK_LIVING(f.find(f.base(0) + 1000), 200, Living::kSlot);
  CHECK_LIVING(f.find(f.base(0) + 2000), 300, Living::kSlot);
  f.release(f.base(0) + 1000);
  f.iterate();
  CHECK_LIVING(f.find(f.base(0) + 3000), 300, Living::kSlot);  // the second slot
}

TEST(slots_are_reported_at_the_addresses_of_their_streams) {
  Alive f;
  f.engine.add_arena(kStream, 0, f.range(0, 1000));
  f.engine.add_arena(kOtherStream, 1000, f.range(1, 1000));
  f.add({slot(10, 2, 500, 0), varying(20, 2, 1500, 1)});
  f.engine.start_serving();
  f.allocate(10);
  f.allocate(7, kOtherStream);
  CHECK_LIVING(f.find(f.base(0) + 500), 10, Living::kSlot);
  CHECK_LIVING(f.find(f.base(1) + 500), 7, Living::kSlot);
}

TEST(late_blocks_are_alive) {
  Alive f;
  f.serve(kWrapping);
  f.iterate();  // the block of request 0 becomes late
  CHECK_LIVING(f.find(f.base(0)), 100, Living::kLate);
  f.replace(1);
  CHECK_LIVING(f.find(f.base(0)), 100, Living::kLate);
  CHECK_LIVING(f.find(f.base(0) + 1000), 200, Living::kLate);
  CHECK_EQ(f.alive(), 3u);
  f.release(f.base(0) + 1000);
  CHECK_EQ(f.alive(), 2u);
}

TEST(blocks_of_the_framework_are_alive) {
  Alive f;
  f.serve({slot(100, 1, 0), persistent(50)});
  f.allocate(100);
  CHECK_EQ(f.allocate(50), 0u);
  f.adopt(kForeign, 50);
  f.adopt(kForeign + 0x1000, 5);  // without a request to the engine
  CHECK_LIVING(f.find(kForeign), 50, Living::kForeign);
  CHECK_LIVING(f.find(kForeign + 0x1000), 5, Living::kForeign);
  f.engine.remove_plans();
  CHECK_LIVING(f.find(kForeign), 50, Living::kForeign);
  f.release(kForeign);
  CHECK_EQ(f.find(kForeign).kind, ~std::uint64_t{0});
}

TEST(slots_of_plans_that_are_gone_are_late) {
  Alive f;
  f.serve(kWrapping);
  f.iterate();
  f.engine.remove_plans();
  CHECK_EQ(f.alive(), 3u);
  for (const Living& block : f.engine.living()) {
    CHECK_EQ(block.kind, static_cast<std::uint64_t>(Living::kLate));
  }
}

TEST(a_list_of_the_living_without_memory_leaves_the_engine_unlocked) {
  Alive f;
  f.serve(kWrapping);
  f.allocate(100);
  f.adopt(kForeign, 9);
  for (int after = 0; after < 2; ++after) {
    const FailingAllocation failing(after);
    CHECK_THROWS(f.engine.living(), std::bad_alloc);
  }
  CHECK_EQ(f.alive(), 2u);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
