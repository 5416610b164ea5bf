// Attack from several threads at once, with real memory.
//
//     driver     end_iteration  select_plan  detach_arena  add_arena  pause  record
//     ... workers    request ──▶ write ──▶ pool ──▶ check what was written ──▶ free
//                                                                          (another thread's
//                                                                           block, often)
//
// A range is marked live after `allocate` has returned, and unmarked before `release` is called. So
// the oracle reports only actual overlaps. The contents of each block are checked, too.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "arguments.hpp"
#include "engine/engine.hpp"
#include "oracle.hpp"
#include "random_plan.hpp"

namespace pgmo::test {
namespace {

struct Held {
  unsigned char* memory;
  std::uint64_t bytes;
  bool slot;
  bool adopted;
  unsigned char mark;
};

class SharedOracle {
 public:
  template <typename Work>
  auto with(Work&& work) {
    const std::lock_guard guard(mutex_);
    return work(oracle_);
  }

 private:
  std::mutex mutex_;
  Oracle oracle_;
};

class Attack {
 public:
  // `lends`: whether idle pages are lent, for which blocks are large enough.
  Attack(std::uint64_t seed, std::uint64_t events, bool lends) : seed_(seed), most_events_(events) {
    engine_.lend_idle(lends);
    Random random(seed);
    PlanStyle style = random_style(random);
    style.streams = kMostStreams;
    style.alignment = 64;
    style.varying = 0.2;
    style.persistent = 0.05;
    if (lends) {
      for (Bytes& bytes : style.sizes) bytes *= 64;
    }
    for (int at = 0; at < 3; ++at) {
      style.ticks = random.between(20, 90);
      plans_.push_back(random_plan(random, style));
    }
    layout_ = lay_out(random, plans_, style);
  }

  void run() {
    Random random(seed_);
    attach(random);
    add_plans();
    serve();
    std::vector<std::thread> workers;
    for (std::uint64_t number = 1; number <= kWorkers; ++number) {
      workers.emplace_back([this, number] { work(number); });
    }
    drive();
    for (std::thread& worker : workers) worker.join();
    engine_.resume();
    engine_.detach_arena();
    std::size_t known = 0;
    for (const Held& block : pool_) known += block.slot || block.adopted;
    require_equal(engine_.living().size(), known, "what lives at the end");
    for (const Held& block : pool_) give(block);
    const Statistics all = engine_.statistics();
    std::uint64_t misses = 0;
    for (const std::uint64_t reason : all.counters.misses) misses += reason;
    require_equal(all.counters.hits + misses, all.counters.requests, "hits and misses");
    require_equal(all.counters.hits, served_, "hits");
    require_equal(static_cast<std::uint64_t>(all.slots.live), 0, "live slot bytes at the end");
    require_equal(static_cast<std::uint64_t>(all.fallback.live), 0, "live fallback bytes");
    require_equal(all.late_now, 0, "late blocks at the end");
    require_equal(all.arenas, 0, "arenas at the end");
    oracle_.with([](Oracle& oracle) {
      require_equal(oracle.count(), 0, "arenas that were never given back");
      require_equal(oracle.living(), 0, "living blocks at the end");
    });
    require(all.counters.hits > most_events_ / 20, "next to nothing was served");
    const auto number = [](std::uint64_t count) { return static_cast<unsigned long long>(count); };
    std::printf(
        "seed %llu: %llu events on %llu threads, %llu hits, %llu late blocks, %llu "
        "without an arena, %llu detached, no violation\n",
        number(seed_), number(events_), number(kWorkers), number(all.counters.hits),
        number(all.counters.late), number(all.counters.misses[static_cast<int>(Miss::kNoArena)]),
        number(detached_));
  }

 private:
  static constexpr std::uint64_t kWorkers = 3;
  static constexpr std::uint64_t kStreams[kMostStreams] = {0, 0x7f0000001000, 0x7f0000002000};

  struct Token {
    Attack* attack;
    void* base;
  };

  static void give_back(void* context) {
    const std::unique_ptr<Token> token(static_cast<Token*>(context));
    token->attack->oracle_.with(
        [&](Oracle& oracle) { oracle.given_back(address_of(token->base)); });
    std::free(token->base);
  }

  pgmo_arena take(std::uint64_t least) {
    const std::uint64_t bytes = (least + 63) / 64 * 64;
    void* base = std::aligned_alloc(64, bytes);
    oracle_.with([&](Oracle& oracle) { oracle.taken(address_of(base), bytes); });
    return {base, bytes, give_back, new Token{this, base}};
  }

  // Attach one arena per stream. Some streams get none.
  void attach(Random& random) {
    engine_.detach_arena();
    while (!engine_.has_arena()) {
      for (std::uint32_t stream = 0; stream < kMostStreams; ++stream) {
        if (!random.chance(0.8)) continue;
        const auto bytes = static_cast<std::uint64_t>(layout_.bytes[stream]);
        engine_.add_arena(kStreams[stream], layout_.begins[stream], take(bytes));
      }
    }
  }

  void add_plans() {
    for (const RandomPlan& plan : plans_) {
      engine_.add_plan(plan.rows, kStreams, plan.arena, plan.alignment);
    }
  }

  void exchange_plans(Random& random) {
    engine_.remove_plans();
    if (!engine_.has_arena()) attach(random);
    add_plans();
  }

  void serve() {
    try {
      engine_.start_serving();
    } catch (const std::logic_error&) {
      // Repeat: a worker has just made the engine yield its arenas.
    }
  }

  // Make requests in the order of the current plan, across all workers: nearly what a program does.
  void work(std::uint64_t number) {
    Random random(seed_ * 100 + number);
    while (events_.load(std::memory_order_relaxed) < most_events_) {
      const RandomPlan& plan = plans_[current_.load(std::memory_order_relaxed)];
      const std::size_t tick = tick_.fetch_add(1, std::memory_order_relaxed);
      if (tick >= plan.rows.size() || random.chance(0.02)) {
        free_some(random, 4);
        std::this_thread::yield();
        continue;
      }
      const PlannedRequest& row = plan.rows[tick];
      const bool outgrown = row.varying && outgrown_.load(std::memory_order_relaxed);
      keep(request(static_cast<std::uint64_t>(row.bytes) + (outgrown ? 64 : 0),
                   kStreams[row.stream_index], static_cast<unsigned char>(number)));
      if (random.chance(0.001)) static_cast<void>(api_->yield_idle(handle_));
      free_some(random, 2);
    }
  }

  Held request(std::uint64_t bytes, std::uint64_t stream, unsigned char mark) {
    ++events_;
    void* memory = api_->allocate(handle_, bytes, stream);
    Held block{static_cast<unsigned char*>(memory), bytes, memory != nullptr, true, mark};
    if (block.slot) {
      ++served_;
    } else {
      block.memory = static_cast<unsigned char*>(std::malloc(bytes));
      block.adopted = api_->adopt(handle_, block.memory, bytes, stream, 0) != 0;
    }
    write(block);
    return block;
  }

  void write(const Held& block) {
    oracle_.with([&](Oracle& oracle) { oracle.lives(address_of(block.memory), block.bytes); });
    std::memset(block.memory, block.mark, block.bytes);
  }

  void give(const Held& block) {
    ++events_;
    require(block.memory[0] == block.mark && block.memory[block.bytes / 2] == block.mark &&
                block.memory[block.bytes - 1] == block.mark,
            "somebody else wrote into a block");
    oracle_.with([&](Oracle& oracle) { oracle.dies(address_of(block.memory)); });
    if (block.slot || block.adopted) {
      const bool ours = api_->release(handle_, block.memory) == PGMO_SLOT;
      require(ours == block.slot, "a slot is taken for the framework's, or not");
    }
    if (!block.slot) std::free(block.memory);
  }

  void keep(const Held& block) {
    const std::lock_guard guard(pool_mutex_);
    pool_.push_back(block);
  }

  // Free some blocks, mostly the oldest first, and more if there are many.
  void free_some(Random& random, std::int64_t most) {
    for (std::int64_t left = random.between(0, most); left > 0; --left) {
      Held block;
      {
        const std::lock_guard guard(pool_mutex_);
        if (pool_.size() < 8) return;
        const auto last = static_cast<std::int64_t>(pool_.size()) - 1;
        const auto at = random.chance(0.7) ? 0 : random.between(0, last);
        block = pool_[static_cast<std::size_t>(at)];
        pool_.erase(pool_.begin() + at);
      }
      give(block);
    }
  }

  void drive() {
    Random random(seed_ * 100);
    while (events_.load(std::memory_order_relaxed) < most_events_) {
      const std::size_t ticks = plans_[current_.load()].rows.size();
      const std::size_t length = random.chance(0.2) ? ticks / 2 : ticks;
      while (tick_.load(std::memory_order_relaxed) < length &&
             events_.load(std::memory_order_relaxed) < most_events_) {
        std::this_thread::yield();
      }
      if (random.chance(0.05)) interfere(random);
      if (random.chance(0.02)) engine_.resume();  // otherwise few requests would be served
      end_iteration(random);
      if (!engine_.has_arena()) {
        ++detached_;
        attach(random);
        serve();
      }
      outgrown_ = random.chance(0.02);
      if (random.chance(0.3)) current_ = static_cast<std::size_t>(random.between(0, 2));
      tick_ = 0;
    }
  }

  void end_iteration(Random& random) {
    if (engine_.pass_iteration()) return;
    engine_.end_iteration();
    engine_.let_pass({.most = random.chance(0.5) ? 10u : 0u,
                      .again = random.chance(0.5),
                      .anything = random.chance(0.1)});
    std::vector<Passed> passed;
    if (random.chance(0.5)) static_cast<void>(engine_.take_passed(passed));
  }

  void interfere(Random& random) {
    switch (random.between(0, 9)) {
      case 0:
        attach(random);
        return serve();
      case 1:
        return engine_.pause();
      case 2:
      case 3:
        return engine_.resume();
      case 4:
        return engine_.start_recording();
      case 5:
        return engine_.stop_recording();
      case 6:
        return engine_.select_plan(static_cast<Engine::PlanId>(random.between(0, 2)));
      case 7:
        static_cast<void>(engine_.living());
        return;
      case 8:
        return engine_.detach_arena();
      default:
        exchange_plans(random);
        serve();
        static_cast<void>(engine_.events());
    }
  }

  std::uint64_t seed_;
  std::uint64_t most_events_;
  std::vector<RandomPlan> plans_;
  Layout layout_{};
  Engine engine_;
  const pgmo_engine_api* api_ = engine_api();
  pgmo_engine* handle_ = reinterpret_cast<pgmo_engine*>(&engine_);
  SharedOracle oracle_;
  std::atomic<std::uint64_t> events_{0};
  std::atomic<std::uint64_t> served_{0};
  std::uint64_t detached_ = 0;  // times that the driver found no arena
  std::atomic<bool> outgrown_{false};
  std::atomic<std::size_t> current_{0};
  std::atomic<std::size_t> tick_{0};
  std::mutex pool_mutex_;
  std::deque<Held> pool_;
};

}  // namespace
}  // namespace pgmo::test

int main(int argc, char** argv) {
  const auto [seed, events] = pgmo::test::read_arguments(argc, argv, 2'000'000);
  constexpr std::uint64_t kRounds = 8;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    pgmo::test::whereabouts = {.seed = seed, .episode = round, .event = 0};
    pgmo::test::Attack(seed * kRounds + round, events / kRounds, round % 4 == 3).run();
  }
  return 0;
}
