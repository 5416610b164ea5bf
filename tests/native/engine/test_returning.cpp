// Tests of idle pages that go back to the operating system while the lock is not held. The tests
// call the engine from within the system call, as other threads may.

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "check.hpp"
#include "engine_fixture.hpp"

namespace {

std::function<void()> meanwhile;

}  // namespace

extern "C" int madvise(void* begin, size_t bytes, int advice) noexcept {
  if (meanwhile) std::exchange(meanwhile, {})();
  return static_cast<int>(syscall(SYS_madvise, begin, bytes, advice));
}

using namespace pgmo;
using namespace pgmo::test;

namespace {

constexpr std::size_t kBytes = 1 << 20;

struct Mapped {
  explicit Mapped(Fixture& fixture) {
    pgmo_arena arena = fixture.range(0, kBytes);
    arena.base = memory;
    fixture.engine.add_arena(kStream, 0, arena);
    fixture.add({slot(100, 2, 0), slot(200, 2, kBytes / 2)}, kBytes);
  }
  ~Mapped() { munmap(memory, kBytes); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

}  // namespace

TEST(no_slot_is_served_where_pages_go_back) {
  Fixture f;
  const Mapped mapped(f);
  meanwhile = [&] {
    f.engine.start_serving();
    CHECK_EQ(f.allocate(100), 0u);
    CHECK_EQ(f.missed(Miss::kLate), 1u);
    CHECK_EQ(f.engine.living().size(), 0u);
    f.engine.pause();
    f.engine.end_iteration();
  };
  CHECK_EQ(f.engine.return_idle(), static_cast<Bytes>(kBytes));
  CHECK(!meanwhile);
  f.engine.resume();
  CHECK_EQ(f.allocate(100), address_of(mapped.memory));
  CHECK_EQ(f.engine.statistics().late_now, 0u);
}

TEST(an_arena_is_given_back_once_its_pages_have) {
  Fixture f;
  const Mapped mapped(f);
  meanwhile = [&] {
    f.engine.detach_arena();
    CHECK_EQ(f.returned[0], 0);
    CHECK(!f.engine.yield_idle());
  };
  (void)f.engine.return_idle();
  CHECK(!meanwhile);
  CHECK_EQ(f.returned[0], 1);
}

TEST(one_thread_at_a_time_returns_pages) {
  Fixture f;
  const Mapped mapped(f);
  meanwhile = [&] { CHECK_EQ(f.engine.return_idle(), 0); };
  CHECK_EQ(f.engine.return_idle(), static_cast<Bytes>(kBytes));
  CHECK(!meanwhile);
}

TEST(blocks_that_live_keep_their_pages) {
  Fixture f;
  const Mapped mapped(f);
  f.engine.start_serving();
  const std::uintptr_t block = f.allocate(100);
  *reinterpret_cast<char*>(block) = 7;
  f.engine.pause();
  meanwhile = [&] { f.engine.detach_arena(); };
  (void)f.engine.return_idle();
  CHECK(!meanwhile);
  CHECK_EQ(*reinterpret_cast<char*>(block), 7);
  CHECK_EQ(f.returned[0], 0);
  CHECK(f.release(block));
  CHECK_EQ(f.returned[0], 1);
}

TEST(threads_that_find_no_idle_page_leave_the_pages_of_others_alone) {
  Fixture f;
  const Mapped mapped(f);
  f.engine.start_serving();
  std::atomic<bool> ended{false};
  const auto returns = [&] {
    while (!ended) (void)f.engine.return_idle();
  };
  std::array<std::thread, 2> threads{std::thread(returns), std::thread(returns)};
  for (int iteration = 0; iteration < 1000; ++iteration) {
    const std::uintptr_t first = f.allocate(100);
    const std::uintptr_t second = f.allocate(200);
    for (const std::uintptr_t block : {first, second}) {
      if (block != 0) *reinterpret_cast<char*>(block) = 7;
    }
    for (const std::uintptr_t block : {first, second}) {
      if (block == 0) continue;
      CHECK_EQ(*reinterpret_cast<char*>(block), 7);
      CHECK(f.release(block));
    }
    f.engine.end_iteration();
    if (iteration % 2 == 0) f.engine.pause();
    std::this_thread::yield();
    if (iteration % 2 == 0) f.engine.resume();
  }
  ended = true;
  for (std::thread& one : threads) one.join();
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
