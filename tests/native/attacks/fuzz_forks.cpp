// Attack on forks: threads allocate, free, grow and give back while the main thread forks.
//
//     threads     slots, blocks of windows, iterations, arenas, sessions that settle and surrender
//     main        fork ──▶ the child frees what it inherits, asks for more, ends its session
//
// A watchdog ends a child or a parent that waits forever for a lock. Nothing else here depends on
// time. Each call of the device in a child is a violation.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "engine/engine.hpp"
#include "fake_device.hpp"
#include "oracle.hpp"
#include "pages/c_api.hpp"
#include "pages_fixture.hpp"
#include "random.hpp"
#include "rows.hpp"

namespace pgmo::test {
namespace {

// Return the seconds without a fork after which the watchdog ends the process: far more than a fork
// needs. Mutants get less time.
unsigned watchdog() {
  static const char* const chosen = std::getenv("FUZZ_FORKS_WATCHDOG");
  static const int seconds = chosen != nullptr ? std::atoi(chosen) : 300;
  return static_cast<unsigned>(seconds);
}

constexpr int kThreads = 3;
constexpr std::size_t kCard = 96;

void on_alarm(int) {
  constexpr char kText[] = "VIOLATION: a process waits for a lock that no thread frees\n";
  (void)!write(STDOUT_FILENO, kText, sizeof kText - 1);
  _exit(1);
}

// Locks of an adapter, of both ranks: see csrc/forks.hpp.
struct Adapter {
  std::mutex outer;
  std::mutex leaf;

  Adapter() {
    const auto take = [](void* mutex) { static_cast<std::mutex*>(mutex)->lock(); };
    const auto free = [](void* mutex, int) { static_cast<std::mutex*>(mutex)->unlock(); };
    require(pages::pages_api()->at_fork(PGMO_LOCKS_LEAF, &leaf, take, free) != 0, "no memory");
    require(pages::pages_api()->at_fork(PGMO_LOCKS_OUTER, &outer, take, free) != 0, "no memory");
  }
};

// A device that takes a lock of the adapter in each call. Only the parent may call it.
class Driver final : public pages::DeviceDriver {
 public:
  using Address = pages::Address;

  Driver(FakeDevice& device, std::mutex& leaf) : device_(device), leaf_(leaf) {}

  Address reserve(Bytes bytes) noexcept override { return called().reserve(bytes); }
  bool create(pages::Handle& page) noexcept override { return called().create(page); }
  void release(pages::Handle page) noexcept override { called().release(page); }
  bool map(Address at, pages::Handle page) noexcept override { return called().map(at, page); }
  bool grant(Address at, Bytes bytes) noexcept override { return called().grant(at, bytes); }
  void unmap(Address at, Bytes bytes) noexcept override { called().unmap(at, bytes); }
  pages::Event record(pages::Stream stream) noexcept override { return called().record(stream); }
  bool completed(pages::Event event) noexcept override { return called().completed(event); }
  void discard(pages::Event event) noexcept override { called().discard(event); }
  bool wait(pages::Stream stream, pages::Event event) noexcept override {
    return called().wait(stream, event);
  }
  bool capturing() noexcept override {
    (void)called();
    return false;
  }

 private:
  FakeDevice& called() {
    require(getpid() == process_, "a forked child calls the driver");
    const std::lock_guard guard(leaf_);
    return device_;
  }

  FakeDevice& device_;
  std::mutex& leaf_;
  const pid_t process_ = getpid();
};

class Attack {
 public:
  Attack(std::uint64_t seed, std::uint64_t forks) : seed_(seed), forks_(forks) {
    // Create the pages or the engine first: the order of locks must not depend on this.
    if (seed_ % 2 == 0) {
      space_.emplace(driver_, properties_of(device_), heuristics_for(device_));
      engine_.emplace();
    } else {
      engine_.emplace();
      space_.emplace(driver_, properties_of(device_), heuristics_for(device_));
    }
  }

  void run() {
    serve();
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; ++number) {
      threads.emplace_back([this, number] { play(number); });
    }
    std::thread session([this] { play_session(); });
    for (std::uint64_t turn = 0; turn < forks_; ++turn) {
      alarm(watchdog());
      fork_once(turn);
    }
    stop_ = true;
    for (std::thread& thread : threads) thread.join();
    session.join();
    alarm(0);
    std::printf("seed %llu: %llu forks, %llu requests beside them, no violation\n",
                static_cast<unsigned long long>(seed_), static_cast<unsigned long long>(forks_),
                static_cast<unsigned long long>(requests_.load()));
  }

 private:
  struct Held {
    std::uintptr_t address = 0;
    bool slot = false;
  };

  void serve() {
    const Bytes page = device_.page();
    engine_->use_pages(*space_);
    engine_->add_arena(0, 0, engine_->reserve_arena(*space_, kArenaPages * page, 0));
    std::vector<PlannedRequest> rows;
    for (Tick at = 0; at < kRows; ++at) rows.push_back(slot(page, at + 3, at % kArenaPages * page));
    (void)engine_->add_plan(rows, std::vector<std::uint64_t>{0}, kArenaPages * page, 1);
    engine_->start_serving();
  }

  Held allocate(Bytes bytes, pages::Stream stream) {
    requests_.fetch_add(1, std::memory_order_relaxed);
    if (void* const slot = engine_->allocate(static_cast<std::size_t>(bytes), stream)) {
      return {reinterpret_cast<std::uintptr_t>(slot), true};
    }
    return {space_->allocate(bytes, stream), false};
  }

  void release(const Held& held) {
    if (held.address == 0) return;
    if (engine_->release(reinterpret_cast<void*>(held.address))) return;
    (void)space_->deallocate(held.address);
  }

  // Work of a thread of the program. Its blocks are members, so that a forked child finds them.
  void play(int number) {
    Random random(seed_ * 97 + static_cast<std::uint64_t>(number));
    std::array<Held, kBlocks>& blocks = held_[static_cast<std::size_t>(number)];
    const Bytes page = device_.page();
    while (!stop_) {
      Held& block = blocks[static_cast<std::size_t>(random.between(0, kBlocks - 1))];
      release(std::exchange(block, {}));
      const auto stream = static_cast<pages::Stream>(number);
      {
        // Hold a lock of the adapter, as an adapter does while it opens the pages of a device.
        std::unique_lock outer(adapter_.outer, std::defer_lock);
        if (number == 1) outer.lock();
        block = allocate(number == 0 ? page : random.between(1, 4 * page), stream);
      }
      if (random.chance(1.0 / 8)) (void)space_->use_block(block.address, (stream + 1) % kThreads);
      if (random.chance(1.0 / 16)) (void)space_->give_back(page * 8);
      if (random.chance(1.0 / 4)) (void)device_.step(stream);
    }
  }

  // Work of the session: it settles ranges, which other threads surrender, and exchanges arenas.
  void play_session() {
    Random random(seed_ + 5);
    while (!stop_) {
      engine_->end_iteration();
      if (random.chance(1.0 / 64)) (void)engine_->yield_idle();
      if (random.chance(1.0 / 64) || !engine_->has_arena()) exchange();
      // Register and remove the locks of a second engine while the main thread forks.
      if (random.chance(1.0 / 16)) Engine().start_recording();
    }
  }

  void exchange() {
    engine_->remove_plans();
    engine_->detach_arena();
    serve();
  }

  void fork_once(std::uint64_t turn) {
    const pid_t child = fork();
    require(child >= 0, "no process can be had");
    if (child == 0) {
      alarm(watchdog());
      live_on();
      _exit(0);
    }
    int status = -1;
    require(waitpid(child, &status, 0) == child, "the child is lost");
    if (status == 0) return;
    std::printf("VIOLATION in fork %llu, seed %llu: the child has ended with status %d\n",
                static_cast<unsigned long long>(turn), static_cast<unsigned long long>(seed_),
                status);
    std::fflush(stdout);
    std::_Exit(1);
  }

  // Run the child: it does everything that a program may do with inherited objects.
  void live_on() {
    const std::lock_guard leaf(adapter_.leaf);
    require(*engine_->mode() == 0, "a forked child is served");
    require(engine_->allocate(64, 0) == nullptr, "a forked child gets a slot");
    require(space_->allocate(64, 0) == 0, "a forked child gets a block");
    for (const auto& blocks : held_) {
      for (const Held& held : blocks) release(held);
    }
    require(space_->give_back(Bytes{1} << 40) == 0, "a forked child gives pages back");
    space_->limit(0);
    space_->grant_again();
    space_->forget_peak();
    engine_->end_iteration();
    engine_->remove_plans();
    engine_->detach_arena();
    (void)engine_->statistics();
    // The child may have a session of its own, in memory that is not the device's.
    static std::array<std::uint64_t, 1024> memory;
    engine_->add_arena(0, 0, {memory.data(), sizeof memory, nullptr, nullptr});
    (void)engine_->add_plan({slot(64, 2, 0), slot(64, 2, 64)}, std::vector<std::uint64_t>{0}, 128,
                            1);
    engine_->start_serving();
    void* const own = engine_->allocate(64, 0);
    require(own == memory.data(), "a forked child's own session does not serve");
    (void)engine_->release(own);
  }

  static constexpr std::size_t kBlocks = 12;
  static constexpr Bytes kArenaPages = 8;
  static constexpr Tick kRows = 24;

  const std::uint64_t seed_;
  const std::uint64_t forks_;
  Adapter& adapter_ = *new Adapter;  // never destroyed, because each fork takes its locks
  FakeDevice device_{kCard};
  Driver driver_{device_, adapter_.leaf};
  std::optional<pages::Space> space_;
  std::optional<Engine> engine_;
  std::array<std::array<Held, kBlocks>, kThreads> held_{};
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace
}  // namespace pgmo::test

int main(int argc, char** argv) {
  std::signal(SIGALRM, pgmo::test::on_alarm);
  const auto [seed, forks] = pgmo::test::read_arguments(argc, argv, 400);
  for (std::uint64_t turn = 0; turn < 2; ++turn) {
    // Never destroyed, because no thread would give back an arena with live blocks.
    (*new pgmo::test::Attack(seed * 2 + turn, forks / 2)).run();
  }
  return 0;
}
