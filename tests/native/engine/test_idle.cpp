// Tests of idle pages that go back to the operating system, with real memory: live blocks keep
// their contents.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "check.hpp"
#include "engine_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

const std::size_t kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
constexpr std::size_t kPages = 16;

// Two slots of two pages each, at pages 4 and 8, and a small slot.
const std::vector<PlannedRequest> kApart = {slot(2 * kPage, 3, 4 * kPage),
                                            slot(2 * kPage, 3, 8 * kPage), slot(100, 3, 0)};

struct Mapped : Fixture {
  std::uint8_t* memory = static_cast<std::uint8_t*>(
      ::mmap(nullptr, kPages* kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

  Mapped() {
    CHECK(memory != MAP_FAILED);
    std::memset(memory, 0x5a, kPages * kPage);
    engine.add_arena(kStream, 0, {memory, kPages * kPage, [](void*) {}, nullptr});
    add(kApart, kPages * kPage);
    engine.start_serving();
  }
  ~Mapped() { ::munmap(memory, kPages * kPage); }

  // Return whether a page has kept its contents.
  bool kept(std::size_t page) const { return memory[page * kPage] == 0x5a; }
  std::size_t pages_kept() const {
    std::size_t count = 0;
    for (std::size_t page = 0; page < kPages; ++page) count += kept(page);
    return count;
  }
};

}  // namespace

TEST(nothing_is_returned_while_slots_are_served) {
  Mapped f;
  f.allocate(2 * kPage);
  CHECK_EQ(f.engine.return_idle(), 0);
  CHECK_EQ(f.pages_kept(), kPages);
}

TEST(in_a_pause_what_lives_keeps_its_pages) {
  Mapped f;
  const std::uintptr_t first = f.allocate(2 * kPage);
  const std::uintptr_t second = f.allocate(2 * kPage);
  CHECK_EQ(second - first, 4 * kPage);
  f.release(second);
  f.engine.pause();
  CHECK_EQ(f.engine.return_idle(), static_cast<Bytes>((kPages - 2) * kPage));
  CHECK_EQ(f.pages_kept(), 2u);
  CHECK(f.kept(4) && f.kept(5));
  f.engine.resume();
  CHECK(f.allocate(100) != 0);
}

TEST(a_page_that_a_block_only_touches_stays) {
  Mapped f;
  f.allocate(2 * kPage);
  f.allocate(2 * kPage);
  f.allocate(100);
  f.engine.pause();
  f.engine.return_idle();
  CHECK_EQ(f.pages_kept(), 5u);
  CHECK(f.kept(0));
}

TEST(of_a_retired_arena_only_late_blocks_stay_also_while_others_are_served) {
  Mapped f;
  const std::uintptr_t first = f.allocate(2 * kPage);
  f.replace(1, kPages * kPage);
  CHECK_EQ(f.engine.return_idle(), static_cast<Bytes>((kPages - 2) * kPage));
  CHECK_EQ(f.pages_kept(), 2u);
  f.release(first);
}

TEST(more_than_is_returned_at_once_goes_as_well) {
  const std::size_t bytes = std::size_t{40} << 20;
  auto* const memory = static_cast<std::uint8_t*>(
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(memory != MAP_FAILED);
  std::memset(memory, 0x5a, bytes);
  Fixture f;
  f.engine.add_arena(kStream, 0, {memory, bytes, [](void*) {}, nullptr});
  f.add({slot(2 * kPage, 1, std::size_t{17} << 20)}, bytes);
  f.engine.start_serving();
  const std::uintptr_t living = f.allocate(2 * kPage);
  f.engine.pause();
  CHECK_EQ(f.engine.return_idle(), static_cast<Bytes>(bytes - 2 * kPage));
  std::size_t kept = 0;
  for (std::size_t at = 0; at < bytes; at += kPage) kept += memory[at] == 0x5a;
  CHECK_EQ(kept, 2u);
  CHECK_EQ(*reinterpret_cast<const std::uint8_t*>(living), 0x5a);
  ::munmap(memory, bytes);
}

namespace {

constexpr std::size_t kLarge = std::size_t{16} << 20;

// An arena with a small and a large slot, whose pages were all touched.
struct Touched : Fixture {
  std::uint8_t* memory = static_cast<std::uint8_t*>(
      ::mmap(nullptr, 2 * kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

  Touched() {
    CHECK(memory != MAP_FAILED);
    engine.add_arena(kStream, 0, {memory, 2 * kLarge, [](void*) {}, nullptr});
    add({slot(static_cast<Bytes>(kPage), 2, static_cast<Offset>(kLarge)),
         slot(static_cast<Bytes>(kLarge), 2, 0)},
        2 * kLarge);
    engine.start_serving();
  }
  ~Touched() { ::munmap(memory, 2 * kLarge); }

  // Run an iteration as planned, and one that diverges with a framework block of `bytes` bytes.
  void depart_with(std::size_t bytes) {
    const std::uintptr_t small = allocate(kPage);
    const std::uintptr_t large = allocate(kLarge);
    std::memset(memory, 0x5a, kLarge + kPage);
    release(large);
    release(small);
    engine.end_iteration();
    CHECK_EQ(allocate(kPage), base_of_small());
    CHECK_EQ(allocate(kLarge + 1), 0u);
    CHECK(adopt(0x10000000u, bytes));
  }
  std::uintptr_t base_of_small() const { return reinterpret_cast<std::uintptr_t>(memory) + kLarge; }
};

}  // namespace

TEST(pages_are_lent_to_what_has_no_slot) {
  Touched f;
  f.engine.lend_idle(true);
  f.depart_with(kLarge);
  CHECK_EQ(f.memory[0], 0);
  CHECK_EQ(f.memory[kLarge - 1], 0);
  CHECK_EQ(f.memory[kLarge], 0x5a);  // in a live block
}

TEST(pages_are_lent_to_an_evaluation_in_a_pause) {
  Touched f;
  f.engine.lend_idle(true);
  const std::uintptr_t large = (f.allocate(kPage), f.allocate(kLarge));
  std::memset(f.memory, 0x5a, kLarge + kPage);
  f.release(large);
  f.engine.pause();
  CHECK(!f.adopt(0x10000000u, kPage));  // a small block
  CHECK_EQ(f.memory[0], 0x5a);
  CHECK(!f.adopt(0x10000000u, kLarge));
  CHECK_EQ(f.memory[0], 0);
  CHECK_EQ(f.memory[kLarge], 0x5a);  // in a live block
  std::memset(f.memory, 0x5a, 1);
  CHECK(!f.adopt(0x10000000u, kLarge));
  CHECK_EQ(f.memory[0], 0x5a);  // no slot was served meanwhile
  f.engine.resume();
}

TEST(memory_that_malloc_keeps_of_missed_blocks_counts_as_resident) {
  Touched f;
  f.engine.lend_idle(true);
  f.depart_with(kLarge);
  f.release(0x10000000u);
  std::uint8_t& idle = f.memory[2 * kLarge - 1];
  idle = 0x5a;
  CHECK(f.allocate(kLarge) != 0);  // the slot is served nevertheless
  CHECK_EQ(idle, 0);
}

TEST(no_pages_are_lent_before_lending_is_on) {
  Touched f;
  f.depart_with(kLarge);
  CHECK_EQ(f.memory[0], 0x5a);
}

TEST(a_little_beside_the_arena_lends_nothing) {
  Touched f;
  f.engine.lend_idle(true);
  f.depart_with(std::size_t{1} << 20);
  CHECK_EQ(f.memory[0], 0x5a);
}

namespace {

// Adopt and release a framework block of `bytes` bytes, of which the first `touched` are touched.
void free_block(Fixture& f, std::size_t bytes, std::size_t touched) {
  auto* const block = static_cast<std::uint8_t*>(
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(block != MAP_FAILED);
  ::madvise(block, bytes, MADV_NOHUGEPAGE);
  std::memset(block, 1, touched);
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  CHECK(f.adopt(address, bytes));
  f.release(address);
  ::munmap(block, bytes);
}

// A plan with two disjoint slots that are never alive together.
struct Spread : Fixture {
  std::uint8_t* memory = static_cast<std::uint8_t*>(
      ::mmap(nullptr, 2 * kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

  Spread() {
    CHECK(memory != MAP_FAILED);
    engine.add_arena(kStream, 0, {memory, 2 * kLarge, [](void*) {}, nullptr});
    engine.lend_idle(true);
  }
  ~Spread() { ::munmap(memory, 2 * kLarge); }

  void serve() {
    add({slot(static_cast<Bytes>(kLarge), 1, 0),
         slot(static_cast<Bytes>(kLarge), 2, static_cast<Offset>(kLarge))},
        2 * kLarge);
    engine.start_serving();
  }

  // Touch and free the first slot before the second slot is served.
  void run() {
    const std::uintptr_t first = allocate(kLarge);
    std::memset(memory, 0x5a, kLarge);
    release(first);
    const std::uintptr_t second = allocate(kLarge);
    CHECK_EQ(second, reinterpret_cast<std::uintptr_t>(memory) + kLarge);
    kept = memory[0];
    std::memset(memory + kLarge, 0x5a, kLarge);
    release(second);
    engine.end_iteration();
  }
  int kept = -1;  // first byte of the first slot when the second slot was served
};

}  // namespace

TEST(a_plan_that_spreads_over_more_than_is_needed_is_swept) {
  Spread f;
  f.serve();
  f.run();
  CHECK_EQ(f.kept, 0x5a);  // the need is not known yet
  f.run();
  CHECK_EQ(f.kept, 0);
}

TEST(a_plan_is_swept_a_few_times_in_an_iteration_at_most) {
  Spread f;
  f.serve();
  f.run();  // measures the need
  f.engine.remove_plans();
  constexpr int kTurns = 20;
  std::vector<PlannedRequest> rows;
  for (int turn = 0; turn < kTurns; ++turn) {
    const Offset offset = turn % 2 == 0 ? 0 : static_cast<Offset>(kLarge);
    rows.push_back(slot(static_cast<Bytes>(kLarge), turn + 1, offset));
  }
  f.add(rows, 2 * kLarge);
  f.engine.start_serving();
  int swept = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    std::uint8_t* const other = f.memory + (turn % 2 == 0 ? kLarge : 0);
    const std::uintptr_t own = f.allocate(kLarge);
    CHECK(own != 0);
    swept += other[0] == 0;
    std::memset(reinterpret_cast<void*>(own), 0x5a, kLarge);
    f.release(own);
  }
  CHECK_EQ(swept, 8);
}

TEST(blocks_that_are_hardly_touched_are_not_needed) {
  Spread f;
  f.engine.start_recording();
  free_block(f, kLarge, kLarge);
  free_block(f, 8 * kLarge, 0);  // like logits of a large vocabulary, which are hardly touched
  f.engine.end_iteration();
  f.engine.stop_recording();
  f.serve();
  f.run();
  f.run();
  CHECK_EQ(f.kept, 0);
}

TEST(blocks_that_are_hardly_touched_are_recognized_by_their_size) {
  Fixture f;
  f.engine.lend_idle(true);
  f.engine.start_recording();
  free_block(f, kLarge, kLarge / 8);
  CHECK_EQ(f.engine.sparse_from(), static_cast<Bytes>(kLarge));
  free_block(f, kLarge / 2, kLarge / 2);
  CHECK_EQ(f.engine.sparse_from(), static_cast<Bytes>(kLarge));
  free_block(f, 2 * kLarge, 2 * kLarge);  // a larger block that is fully touched
  CHECK_EQ(f.engine.sparse_from(), 0);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
