#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.hpp"
#include "engine_fixture.hpp"

using namespace pgmo;
using namespace pgmo::test;

TEST(a_forked_child_delegates_and_still_knows_its_slots) {
  Fixture f;
  f.serve(kTwoSlots);
  const std::uintptr_t block = f.allocate(100);
  f.engine.pause();  // the child does not resume serving
  const pid_t child = fork();
  if (child == 0) {
    f.engine.resume();
    const bool bypass = *f.engine.mode() == 0 && f.allocate(200) == 0 && !f.adopt(4096, 8);
    const bool known = f.release(block);
    _exit(bypass && known ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
  f.engine.resume();
  CHECK_EQ(f.allocate(200), Fixture::base(0) + 1000);
}

TEST(a_fork_amid_other_threads_leaves_the_child_unlocked) {
  Fixture f;
  f.serve(kTwoSlots);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      f.release(f.allocate(100));
      f.engine.end_iteration();
    }
  });
  int fine = 0;
  constexpr int kForks = 50;
  for (int turn = 0; turn < kForks; ++turn) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // ends a child that waits for a lock
      f.release(Fixture::base(0));
      _exit(f.allocate(100) == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    fine += status == 0;
  }
  stop = true;
  other.join();
  CHECK_EQ(fine, kForks);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
