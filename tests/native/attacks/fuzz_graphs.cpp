// Attack on graphs: random captures in pools that share pages, and replays on streams that run
// their work later.
//
//     pool A   capture ─ capture ─ replay ─ replay ─ ...      an oracle knows what each read of a
//     pool B   capture ─ replay ─ replay ─ destroy            replay and of the program must find
//
// An event is a replay. Meanwhile, pools that share no pages get expandable segments.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "adapters/cuda/graphs/chains.hpp"
#include "arguments.hpp"
#include "graphs/expandable_pools.hpp"
#include "graphs/graph_pool.hpp"
#include "graphs/lagging_memory.hpp"
#include "oracle.hpp"
#include "random.hpp"

namespace pgmo::test {
namespace {

struct Seen {
  std::uint64_t events = 0, episodes = 0, shared = 0, moves = 0, waits = 0, full = 0, apart = 0;
  std::uint64_t lent = 0;

  void require_all() const {
    require(shared > 0 && moves > 0 && waits > 0, "no pools shared pages");
    require(lent > 0, "no page was lent");
    require(full > 0 && apart > 0, "no device was full, or every launch was seen");
  }

  void print(std::uint64_t seed) const {
    const auto number = [](std::uint64_t one) { return static_cast<unsigned long long>(one); };
    std::printf(
        "seed %llu: %llu events in %llu episodes, no violation; %llu with shared pages, %llu "
        "moves, %llu waits, %llu pages lent, %llu devices were full, %llu pools launched unseen\n",
        number(seed), number(events), number(episodes), number(shared), number(moves),
        number(waits), number(lent), number(full), number(apart));
  }
};

class Episode {
 public:
  Episode(std::uint64_t seed, Seen& seen)
      : random_(seed),
        seen_(seen),
        memory_(random_,
                static_cast<std::size_t>(random_.chance(0.2) ? random_.between(10, 60) : 10'000)),
        chains_(memory_, LaggingMemory::kPage),
        expandable_(seed) {}

  void run() {
    const std::uint64_t most = static_cast<std::uint64_t>(random_.between(50, 600));
    while (whereabouts.event < most && step()) continue;
    memory_.run_all();
    const graphs::SharingFigures figures = chains_.figures();
    seen_.moves += figures.moves;
    seen_.waits += figures.waits;
    seen_.lent += figures.lent;
    seen_.events += whereabouts.event;
    ++seen_.episodes;
  }

 private:
  // Run one step. Return false if the device is full, which ends the program.
  bool step() {
    memory_.run_some();
    expandable_.step_sometimes();
    if (pools_.empty() || (graphs_ < 20 && random_.chance(0.03))) add_pool();
    const auto at =
        static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(pools_.size()) - 1));
    GraphPool& pool = *pools_[at];
    const bool done = advance(pool);
    if (!done) ++seen_.full;
    if (pool.gone()) pools_.erase(pools_.begin() + static_cast<std::ptrdiff_t>(at));
    const graphs::SharingFigures figures = chains_.figures();
    seen_.shared += figures.mapped > figures.held;
    return done;
  }

  bool advance(GraphPool& pool) {
    if (pool.capturing()) {
      if (!pool.capture_some()) return false;
      return !random_.chance(0.3) || pool.end_capture();
    }
    const bool again = pool.graphs() < 4 && random_.chance(pool.replays() == 0 ? 0.3 : 0.02);
    if (pool.graphs() == 0 || again) {
      return pool.begin_capture(++graphs_);
    }
    if (random_.chance(0.02)) {
      (void)chains_.lend();
      return true;
    }
    if (random_.chance(0.3)) {
      pool.access();
      return true;
    }
    if (random_.chance(0.004)) {
      ++seen_.apart;
      return pool.launch_unseen();
    }
    if (random_.chance(0.01)) {
      pool.destroy();
      return true;
    }
    ++whereabouts.event;
    return pool.replay();
  }

  void add_pool() {
    pools_.push_back(
        std::make_unique<GraphPool>(random_, memory_, chains_, graphs::PoolId{0, ++newest_}));
  }

  Random random_;
  Seen& seen_;
  LaggingMemory memory_;
  graphs::Chains chains_;
  ExpandablePools expandable_;
  std::vector<std::unique_ptr<GraphPool>> pools_;
  std::uint64_t newest_ = 0;
  graphs::GraphId graphs_ = 0;
};

}  // namespace
}  // namespace pgmo::test

int main(int argc, char** argv) {
  using namespace pgmo::test;
  const auto [seed, events] = read_arguments(argc, argv, 10'000'000);
  Seen seen;
  whereabouts.seed = seed;
  while (seen.events < events) {
    whereabouts.episode = seen.episodes;
    whereabouts.event = 0;
    Episode(seed * 1'000'003 + seen.episodes, seen).run();
  }
  seen.require_all();
  seen.print(seed);
}
