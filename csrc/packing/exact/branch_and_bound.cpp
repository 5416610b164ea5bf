#include "packing/exact/branch_and_bound.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <optional>
#include <thread>

#include "packing/exact/exact_search.hpp"
#include "packing/exact/search_order.hpp"

namespace pgmo::packing {
namespace {

// Nodes per block of the shortest tries, enough to place every block once.
constexpr std::uint64_t kNodesPerBlock = 3;
constexpr std::uint64_t kFirstRound = 500;  // nodes of each racer in the first round
constexpr std::uint64_t kRound = 4000;      // nodes of each racer in a later round
constexpr double kMemory = 1 << 30;         // bytes for all racers of a window

// Return entry `index` (from 1) of the sequence 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ... (Luby, Sinclair,
// Zuckerman 1993). With n = 2^(k-1), its first 2n - 1 entries are its first n - 1 entries twice,
// then n.
std::uint64_t luby(std::uint64_t index) {
  const std::uint64_t power = std::bit_floor(index + 1);
  return index + 1 == power ? power / 2 : luby(index + 1 - power);
}

class Racer {
 public:
  // One of `stride` racers that share the orders of a seed. It searches at or above the bound.
  Racer(const Window& window, bool at_bound, std::uint64_t seed, std::uint64_t first,
        std::uint64_t stride)
      : window_(window), at_bound_(at_bound), seed_(seed), first_(first), stride_(stride) {}

  // Search at most `nodes` nodes, from the best bound and height of all racers. `best` is the order
  // that led to the incumbent; empty: none.
  void run(Bytes bound, Bytes height, const SearchOrder& best, std::uint64_t nodes,
           const std::function<bool()>& stopped) {
    if (!at_bound_ && !best.blocks.empty()) best_ = best;
    bound_ = bound;
    height_ = height;
    found_.reset();
    const std::uint64_t end = nodes_ + nodes;
    while (bound_ < height_ && nodes_ < end && !stopped()) {
      if (!search_ || search_->capacity() < bound_ || search_->capacity() >= height_) start();
      const std::uint64_t before = search_->nodes();
      const auto state = search_->run(std::min(left_, end - nodes_), stopped);
      const std::uint64_t spent = search_->nodes() - before;
      nodes_ += spent;
      left_ -= std::min(left_, spent);
      if (state == ExactSearch::State::kFound) {
        found_ = search_->offsets();
        best_ = order_;
        height_ = height_of(window_, *found_);
        keeps_order_ = true;
        search_.reset();
      } else if (state == ExactSearch::State::kInfeasible) {
        bound_ = search_->capacity() + 1;
        keeps_order_ = false;
        search_.reset();
      } else if (left_ == 0) {
        missed();
        search_.reset();
      }
    }
  }

  Bytes bound() const { return bound_; }
  Bytes height() const { return height_; }
  const std::optional<Offsets>& found() const { return found_; }
  const SearchOrder& best() const { return best_; }

 private:
  void start() {
    const Bytes range = height_ - 1 - bound_;
    const Bytes capacity = at_bound_ ? bound_ : height_ - 1 - (range >> ease_);
    const std::uint64_t length = luby(++tries_);
    if (keeps_order_) {
      // Keep the order that succeeded for the last capacity.
    } else if (!at_bound_ && !best_.blocks.empty() && std::popcount(tries_) % 2 == 0) {
      order_ = similar_order(best_, seed_, first_ + tries_ * stride_);
    } else {
      // Each try length has its own next order, so that each order gets short and long tries.
      const auto level = static_cast<std::size_t>(std::countr_zero(length));
      if (next_.size() <= level) next_.resize(level + 1, first_);
      order_ = search_order(window_, seed_, next_[level]);
      next_[level] += stride_;
    }
    keeps_order_ = false;
    left_ = kNodesPerBlock * order_.blocks.size() * length;
    search_.emplace(window_, capacity, order_);
  }

  // Give up an order. A racer above the bound then aims at a smaller improvement, or, after the
  // smallest, at the largest again.
  void missed() {
    if (at_bound_) return;
    const Bytes range = height_ - 1 - bound_;
    if (ease_ < 6 && (range >> ease_) > 0) {
      ++ease_;
    } else {
      ease_ = 1;
    }
  }

  const Window& window_;
  const bool at_bound_;
  const std::uint64_t seed_;
  const std::uint64_t first_, stride_;
  std::vector<std::uint64_t> next_;  // next order, indexed by the logarithm of the try length
  std::uint64_t tries_ = 0;
  SearchOrder order_, best_;
  bool keeps_order_ = false;
  int ease_ = 1;  // the target is below the incumbent by 2^-ease of the distance to the bound
  std::uint64_t left_ = 0;
  std::optional<ExactSearch> search_;
  Bytes bound_ = 0, height_ = 0;
  std::optional<Offsets> found_;
  std::uint64_t nodes_ = 0;
};

class Race : public WindowSearch {
 public:
  Race(const PackedWindow& packed, const Monitor& monitor, const SearchOptions& options)
      : WindowSearch(packed.offsets, packed.height, packed.window.load),
        window_(packed.window),
        monitor_(monitor),
        threads_(static_cast<std::size_t>(options.threads)) {
    const Bytes above = std::max<Bytes>(monitor.bound() - window_.base, 0);
    bound_ = std::max(bound_, (above + window_.unit - 1) / window_.unit);
    // A search has up to one level per block, and each level stores all open blocks.
    const double blocks = window_.blocks();
    const double affordable = kMemory / (12 * blocks * blocks + 1);
    const int racers = static_cast<int>(std::min<double>(std::max(2, options.threads), affordable));
    for (int i = 0; i < racers; ++i) {
      const bool at_bound = i < (racers + 1) / 2;
      const auto first = static_cast<std::uint64_t>(at_bound ? i : i - (racers + 1) / 2);
      const auto stride = static_cast<std::uint64_t>(at_bound ? (racers + 1) / 2 : racers / 2);
      racers_.push_back(std::make_unique<Racer>(window_, at_bound, options.seed, first, stride));
    }
  }

  // Run one round of all racers.
  void run() override {
    // If a racer finds a packing at the bound, the results of later racers are not needed.
    std::atomic<std::size_t> last{racers_.size()};
    const std::uint64_t nodes = round_++ == 0 ? kFirstRound : kRound;
    const auto drive = [&](std::size_t index) {
      Racer& racer = *racers_[index];
      racer.run(bound_, height_, best_, nodes,
                [&] { return monitor_.stopped() || index > last.load(); });
      if (!racer.found() || racer.height() > bound_) return;
      std::size_t before = last.load();
      while (index < before && !last.compare_exchange_weak(before, index)) {
      }
    };
    const auto work = [&](std::size_t first, std::size_t step) {
      for (std::size_t i = first; i < racers_.size(); i += step) drive(i);
    };
    {
      std::vector<std::jthread> others;
      if (round_ > 1) {  // the first round takes less time than starting a thread
        for (std::size_t i = 1; i < threads_; ++i) others.emplace_back(work, i, threads_);
      }
      work(0, round_ > 1 ? threads_ : 1);
    }
    for (std::size_t i = 0; i < racers_.size() && i <= last.load(); ++i) {
      bound_ = std::max(bound_, racers_[i]->bound());
      if (racers_[i]->found() && racers_[i]->height() < height_) {
        height_ = racers_[i]->height();
        offsets_ = *racers_[i]->found();
        best_ = racers_[i]->best();
      }
    }
  }

  // Return whether the packing is optimal, or the window is too large to search.
  bool done() const override { return height_ <= bound_ || racers_.empty(); }

 private:
  const Window& window_;
  const Monitor& monitor_;
  const std::size_t threads_;
  SearchOrder best_;  // the order that led to the offsets; empty for the first incumbent
  std::uint64_t round_ = 0;
  std::vector<std::unique_ptr<Racer>> racers_;
};

}  // namespace

Improvement branch_and_bound(const Ring& ring, const Offsets& incumbent, Monitor& monitor,
                             const SearchOptions& options) {
  return search_windows(ring, incumbent, monitor, [&](const PackedWindow& packed, const Offer&) {
    return std::make_unique<Race>(packed, monitor, options);
  });
}

}  // namespace pgmo::packing
