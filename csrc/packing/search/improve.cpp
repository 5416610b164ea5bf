#include "packing/search/improve.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "packing/search/ejection.hpp"
#include "packing/search/interference.hpp"
#include "packing/search/order_search.hpp"

namespace pgmo::packing {
namespace {

constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kFirstRound = 500'000;       // work of the first round, in units of 20 ns
constexpr std::uint64_t kLongestRound = 16'000'000;  // maximum work of a round, in the same units
// Units without progress, per block, after which the search ends.
constexpr std::uint64_t kPatience = 2'000'000;

Bytes unit_of(const Ring& ring) {
  return std::accumulate(ring.size.begin(), ring.size.end(), Bytes{0},
                         [](Bytes a, Bytes b) { return std::gcd(a, b); });
}

// State shared by the searchers of one ring.
struct SearchContext {
  const Ring& ring;
  const InterferenceIndex& interference;
  const Monitor& monitor;
  const Bytes bound;
  const Bytes unit;
  const Offer offer;
  // Fewest units of this round after which a thread met the bound.
  std::atomic<std::uint64_t> met_at{std::numeric_limits<std::uint64_t>::max()};

  // The monitor also stops when its packing is optimal.
  bool stopped() const { return monitor.stopped(); }
};

// The order search and the ejection search of one thread.
class Searcher {
 public:
  Searcher(SearchContext& shared, const Offsets& incumbent, Bytes arena, std::uint64_t seed)
      : shared_(shared),
        orders_(shared.ring, seed, [&shared] { return shared.stopped(); }),
        ejection_(shared.ring, shared.interference, shared.unit, seed + 1) {
    adopt(incumbent, arena);
  }

  void adopt(const Offsets& offsets, Bytes arena) {
    orders_.lower_target(arena);
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
      orders_.lower_target(arena_);
    }
    orders_share_ += ((kOrders ? 0.9 : 0.1) - orders_share_) / 2;
    if (arena_ > shared_.bound) {
      shared_.offer(best_, arena_);
      return;
    }
    // Do not offer the packing yet: the monitor would stop the other threads before they reach the
    // same number of units.
    met_at_ = spent_;
    std::uint64_t known = shared_.met_at.load();
    while (met_at_ < known && !shared_.met_at.compare_exchange_weak(known, met_at_)) {
    }
  }

  SearchContext& shared_;
  OrderSearch orders_;
  Ejection ejection_;
  Offsets best_;
  Bytes arena_ = std::numeric_limits<Bytes>::max();
  double orders_share_ = 0.5;  // share of the work; more for the method that made progress recently
  std::uint64_t spent_ = 0;    // units in this round
  std::uint64_t met_at_ = kEndless;
};

class Rounds : public WindowSearch {
 public:
  // Improve the packing until it meets `bound`, in units. Lower packings of this window may exist.
  Rounds(const PackedWindow& packed, Bytes bound, const Monitor& monitor,
         const SearchOptions& options, Offer offer)
      : WindowSearch(packed.offsets, packed.height, packed.window.load),
        ring_(ring_of(packed.window)),
        interference_(ring_),
        shared_{ring_, interference_, monitor, bound, unit_of(ring_), std::move(offer)} {
    for (int i = 0; i < std::max(1, options.threads); ++i) {
      searchers_.push_back(
          std::make_unique<Searcher>(shared_, offsets_, height_, options.seed * 0x10001 + 2 * i));
    }
  }

  // Return whether the bound is met, or too much work was done without progress.
  bool done() const override {
    return height_ <= shared_.bound || idle_ >= kPatience * ring_.size.size();
  }

  // Run one round, longer than the previous one.
  void run() override {
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < searchers_.size(); ++i) {
        threads.emplace_back([&, i] { searchers_[i]->round(length_, (i + number_) % 2 == 0); });
      }
      searchers_[0]->round(length_, number_ % 2 == 0);
    }
    const auto best = std::min_element(searchers_.begin(), searchers_.end(), [](auto& a, auto& b) {
      return std::pair(a->arena(), a->met_at()) < std::pair(b->arena(), b->met_at());
    });
    idle_ += length_;
    if ((*best)->arena() < height_) {
      offsets_ = (*best)->offsets();
      height_ = (*best)->arena();
      idle_ = 0;
    }
    for (auto& searcher : searchers_) searcher->adopt(offsets_, height_);
    length_ = std::min(length_ + length_ / 2, kLongestRound);
    ++number_;
  }

 private:
  const Ring ring_;
  const InterferenceIndex interference_;
  SearchContext shared_;
  std::vector<std::unique_ptr<Searcher>> searchers_;
  // Units: length of the next round, and work since the last progress.
  std::uint64_t length_ = kFirstRound, idle_ = 0;
  std::size_t number_ = 0;
};

}  // namespace

Improvement improve(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                    const SearchOptions& options) {
  return search_windows(ring, incumbent, monitor, [&](const PackedWindow& packed, Offer offer) {
    const Bytes bound = (monitor.bound() - packed.window.base) / packed.window.unit;
    return std::make_unique<Rounds>(packed, bound, monitor, options, std::move(offer));
  });
}

}  // namespace pgmo::packing
