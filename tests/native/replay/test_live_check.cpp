// Tests that PGMO_CHECK=1 ends the process if a new block overlaps a live block, and only then.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "check.hpp"
#include "engine/engine.hpp"
#include "rows.hpp"

using namespace pgmo;
using namespace pgmo::test;

namespace {

struct Ended {
  int status;
  std::string message;
};

// Run the work in a child process. Return its exit status and its standard error.
template <typename Work>
Ended in_child(Work&& work) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    setenv("PGMO_CHECK", "1", 1);
    work();
    _exit(0);
  }
  close(ends[1]);
  Ended ended{};
  char buffer[512];
  for (ssize_t count; (count = read(ends[0], buffer, sizeof buffer)) > 0;) {
    ended.message.append(buffer, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  waitpid(child, &ended.status, 0);
  return ended;
}

void* at(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

// Replay a plan that the validator would reject: rows 0 and 1 live at the same time on the same
// bytes.
void replay_an_invalid_plan() {
  Engine engine;
  engine.add_arena(0, 0, {at(0x100000), 1000, nullptr, nullptr});
  const std::uint64_t streams[] = {0};
  const PlannedRequest rows[] = {slot(100, 2, 0), slot(100, 2, 50)};
  engine.add_plan({std::begin(rows), std::end(rows)}, streams, 1000, 1);
  engine.start_serving();
  engine.allocate(100, 0);
  engine.allocate(100, 0);
}

}  // namespace

TEST(an_overlap_of_two_slots_aborts_with_both_of_them) {
  const Ended ended = in_child(replay_an_invalid_plan);
  CHECK(WIFSIGNALED(ended.status));
  CHECK_EQ(WTERMSIG(ended.status), SIGABRT);
  for (const char* part : {"PGMO_CHECK failed", "100 bytes at 0x100032", "at 0x100000", "slot"}) {
    CHECK(ended.message.find(part) != std::string::npos);
  }
}

TEST(a_block_of_the_frameworks_within_a_slot_aborts) {
  const Ended ended = in_child([] {
    Engine engine;
    engine.start_recording();
    engine.adopt(at(0x1000), 100, 0);
    engine.adopt(at(0x1040), 100, 0);
  });
  CHECK(WIFSIGNALED(ended.status));
  CHECK(ended.message.find("framework") != std::string::npos);
}

TEST(neighbours_and_reused_addresses_are_fine) {
  const Ended ended = in_child([] {
    Engine engine;
    engine.start_recording();
    engine.adopt(at(0x1000), 100, 0);
    engine.adopt(at(0x1000 + 100), 100, 0);
    engine.release(at(0x1000));
    engine.adopt(at(0x1000), 64, 0);
  });
  CHECK_EQ(ended.status, 0);
  CHECK_EQ(ended.message, "");
}

TEST(without_the_check_nothing_is_watched) {
  const Ended ended = in_child([] {
    setenv("PGMO_CHECK", "0", 1);
    replay_an_invalid_plan();
  });
  CHECK_EQ(ended.status, 0);
}

int main(int argc, char** argv) {
  return pgmo::test::run_all(argc, argv);
}
