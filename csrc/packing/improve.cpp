// Rounds of searching side by side:
//
//    thread 0   [ orders | ejection ]     [ ejection | orders ]     ...
//    thread 1   [ ejection | orders ]     [ orders | ejection ]
//                                    best                      best
//
// A round is a number of units of work, not of seconds, and threads hear of each other between
// rounds only: so problem, seed and number of threads determine all that is found, and the clock
// only how much of it. When a thread meets the bound, the others go on to the same number of
// units; of several the one that needed the fewest, then the first, has the answer.

#include "packing/improve.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "packing/ejection.hpp"
#include "packing/meetings.hpp"
#include "packing/order_search.hpp"

namespace pgmo::packing {
namespace {

constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kFirstRound = 500'000;  // units, some 20 ns each
constexpr std::uint64_t kLongestRound = 16'000'000;
constexpr std::uint64_t kPatience = 2'000'000;  // units for each block without progress: the end

struct Shared {
  const Ring& ring;
  const Meetings& meetings;
  Monitor& monitor;
  const Bytes bound;
  const Bytes unit;
  std::atomic<std::uint64_t> met_at{kEndless};  // fewest units within the round to meet the bound

  // The monitor also stops when it knows an optimal packing; then there is no more to find.
  bool stopped() const { return monitor.stopped(); }
};

class Searcher {
 public:
  Searcher(Shared& shared, const Offsets& incumbent, Bytes arena, std::uint64_t seed)
      : shared_(shared),
        orders_(shared.ring, seed, [&shared] { return shared.stopped(); }),
        ejection_(shared.ring, shared.meetings, shared.unit, seed + 1) {
    adopt(incumbent, arena);
  }

  void adopt(const Offsets& offsets, Bytes arena) {
    orders_.aspire(arena);
    if (arena >= arena_) return;
    arena_ = arena;
    best_ = offsets;
    ejection_.restart(best_, arena_);
  }

  void round(std::uint64_t work, bool orders_first) {
    spent_ = 0;
    met_at_ = kEndless;
    const auto orders_work = static_cast<std::uint64_t>(static_cast<double>(work) * orders_share_);
    for (const bool orders : {orders_first, !orders_first}) {
      if (given_up(spent_)) return;
      if (orders) {
        run(orders_, orders_work);
      } else {
        run(ejection_, work - orders_work);
      }
    }
    orders_share_ += (0.5 - orders_share_) / 8;
  }

  const Offsets& offsets() const { return best_; }
  Bytes arena() const { return arena_; }
  std::uint64_t met_at() const { return met_at_; }
  std::uint64_t work() const { return orders_.work() + ejection_.work(); }

 private:
  bool given_up(std::uint64_t units) const {
    return units >= shared_.met_at.load(std::memory_order_relaxed) || shared_.stopped();
  }

  template <typename Method>
  void run(Method& method, std::uint64_t work) {
    const std::uint64_t before = method.work();
    const std::uint64_t spent = spent_;
    method.run(shared_.bound, work,
               [&](std::uint64_t units) { return given_up(spent + units - before); });
    spent_ += method.work() - before;
    if (method.arena() >= arena_) return;
    adopt_own(method);
  }

  template <typename Method>
  void adopt_own(const Method& method) {
    constexpr bool kOrders = std::is_same_v<Method, OrderSearch>;
    best_ = method.offsets();
    arena_ = method.arena();
    if constexpr (kOrders) {
      ejection_.restart(best_, arena_);
    } else {
      orders_.aspire(arena_);
    }
    orders_share_ += ((kOrders ? 0.9 : 0.1) - orders_share_) / 2;
    if (arena_ > shared_.bound) {
      shared_.monitor.offer(best_, arena_, "search");
      return;
    }
    // Told to the monitor after the round: it would stop the others before they came as far.
    met_at_ = spent_;
    std::uint64_t known = shared_.met_at.load();
    while (met_at_ < known && !shared_.met_at.compare_exchange_weak(known, met_at_)) {
    }
  }

  Shared& shared_;
  OrderSearch orders_;
  Ejection ejection_;
  Offsets best_;
  Bytes arena_ = std::numeric_limits<Bytes>::max();
  double orders_share_ = 0.5;  // of the work: more to the method that found something lately
  std::uint64_t spent_ = 0;    // units in this round
  std::uint64_t met_at_ = kEndless;
};

void run_round(std::vector<std::unique_ptr<Searcher>>& searchers, std::uint64_t work,
               std::size_t number) {
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < searchers.size(); ++i) {
    threads.emplace_back([&, i] { searchers[i]->round(work, (i + number) % 2 == 0); });
  }
  searchers[0]->round(work, number % 2 == 0);
}

}  // namespace

Improvement improve(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                    const Options& options) {
  Improvement found{incumbent, arena_of(ring, incumbent), 0};
  const Bytes bound = std::max(monitor.bound(), ring.max_load);
  if (ring.blocks() < 2 || found.arena <= bound) return found;

  const Meetings meetings(ring);
  const Bytes unit = std::accumulate(ring.size.begin(), ring.size.end(), Bytes{0},
                                     [](Bytes a, Bytes b) { return std::gcd(a, b); });
  Shared shared{ring, meetings, monitor, bound, unit};
  std::vector<std::unique_ptr<Searcher>> searchers;
  for (int i = 0; i < std::max(1, options.threads); ++i) {
    searchers.push_back(std::make_unique<Searcher>(shared, found.offsets, found.arena,
                                                   options.seed * 0x10001 + 2 * i));
  }
  const std::uint64_t patience = kPatience * ring.size.size();
  std::uint64_t idle = 0;
  std::uint64_t work = kFirstRound;
  for (std::size_t number = 0; found.arena > bound && idle < patience && !shared.stopped();
       ++number) {
    run_round(searchers, work, number);
    const auto best = std::min_element(searchers.begin(), searchers.end(), [](auto& a, auto& b) {
      return std::pair(a->arena(), a->met_at()) < std::pair(b->arena(), b->met_at());
    });
    idle += work;
    if ((*best)->arena() < found.arena) {
      found.offsets = (*best)->offsets();
      found.arena = (*best)->arena();
      idle = 0;
      monitor.offer(found.offsets, found.arena, "search");
    }
    for (auto& searcher : searchers) searcher->adopt(found.offsets, found.arena);
    work = std::min(work + work / 2, kLongestRound);
  }
  for (const auto& searcher : searchers) found.work += searcher->work();
  return found;
}

}  // namespace pgmo::packing
