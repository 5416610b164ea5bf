// Pages that go back to the system, on memory that is there: what lives keeps its bytes.

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

// Two slots of two pages each, four and eight pages behind the beginning.
const std::vector<PlannedRequest> kApart = {slot(2 * kPage, 3, 4 * kPage),
                                            slot(2 * kPage, 3, 8 * kPage), slot(100, 3, 0)};

struct Mapped : Fixture {
  std::uint8_t* memory = static_cast<std::uint8_t*>(
      ::mmap(nullptr, kPages* kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

  Mapped() {
    CHECK(memory != MAP_FAILED);
    std::memset(memory, 0x5a, kPages * kPage);
    engine.attach_arena({memory, kPages * kPage, [](void*) {}, nullptr});
    add(kApart, kPages * kPage);
    engine.start_serving();
  }
  ~Mapped() { ::munmap(memory, kPages * kPage); }

  // Whether a page still has what was written to it.
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
  f.attach(1, kPages * kPage);
  f.engine.start_serving();
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
  f.engine.attach_arena({memory, bytes, [](void*) {}, nullptr});
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

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
