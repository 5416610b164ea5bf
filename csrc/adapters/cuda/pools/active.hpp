// Active pools of one device: pools of graph captures, and torch.cuda.MemPool. Thread-safe.
//
//     active pool                           its requests are served by
//     capture                               the allocator beneath, without the engine: a graph
//                                           replays with the addresses of its blocks
//     MemPool with an allocator of its own  the allocator beneath, without the engine
//     other MemPool                         a window of the pool: see cuda/pages/user_pools.hpp;
//                                           without pages, the allocator beneath
//
// Each active pool has a filter, which decides by thread or by stream whether a request belongs to
// the pool. Torch makes a graph's pool active before the capture begins, and the filter accepts no
// stream until the capture begins. So a pool whose filter accepts the current stream at once is not
// the pool of a capture. While no pool of a capture is active, pgmo may call the driver and wait
// for the device.

#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "adapters/cuda/deferred.hpp"

namespace {

class ActivePools {
 public:
  using Id = c10::cuda::MempoolId_t;
  using Filter = std::function<bool(cudaStream_t)>;

  enum class Kind {
    kCapture,  // may be the pool of a graph capture; active in the allocator beneath, too
    kBeneath,  // active in the allocator beneath, too, which serves its requests
    kServed,   // pages serve its requests; not active in the allocator beneath
    kWithin    // was kServed; the allocator beneath now serves each request, see WithinPool
  };

  // The active pool to which a request belongs.
  struct Claim {
    Id pool;
    Kind kind;
  };

  // Return whether pools of this kind are not active in the allocator beneath.
  static bool is_unseen(Kind kind) { return kind == Kind::kServed || kind == Kind::kWithin; }

  // Return the kind of a pool that is about to become active. `stream`: the current stream.
  // `paged`: pages serve requests now.
  Kind kind_of(Id id, const Filter& filter, cudaStream_t stream, bool paged) const {
    if (!filter || is_capturing(stream) || !filter(stream)) return Kind::kCapture;
    return paged && serves(id) ? Kind::kServed : Kind::kBeneath;
  }

  void begin(Id id, Filter filter, Kind kind) {
    const std::lock_guard guard(mutex_);
    pools_.emplace_back(id, std::move(filter), kind);
    count();
  }

  // End the pool's latest activation and return its kind; nullopt if the pool is not active.
  std::optional<Kind> end(Id id) {
    const std::lock_guard guard(mutex_);
    const auto found = find(id);
    if (found == pools_.end()) return std::nullopt;
    const Kind kind = found->kind;
    pools_.erase(found);
    count();
    return kind;
  }

  std::mutex& mutex() { return mutex_; }  // for forks

  // `any`: whether a capture may be in progress. `any_active`: whether any pool is active.
  bool any() const { return captures_.load(std::memory_order_acquire) != 0; }

  bool any_active() const { return count_.load(std::memory_order_acquire) != 0; }

  bool is_active(Id id) const {
    const std::lock_guard guard(mutex_);
    return find(id) != pools_.end();
  }

  // Return whether this active pool got a request on a stream under capture.
  bool captured(Id id) const {
    const std::lock_guard guard(mutex_);
    const auto found = find(id);
    return found != pools_.end() && found->captured.load(std::memory_order_relaxed);
  }

  // Return the active pool to which a request of this thread on this stream belongs. If there are
  // several, return the one that became active last.
  std::optional<Claim> claim(cudaStream_t stream) const {
    if (!any_active()) [[likely]]
      return std::nullopt;
    const std::lock_guard guard(mutex_);
    for (auto one = pools_.rbegin(); one != pools_.rend(); ++one) {
      if (!one->filter(stream)) continue;
      if (!one->captured.load(std::memory_order_relaxed) && is_capturing(stream)) {
        one->captured.store(true, std::memory_order_relaxed);
      }
      return Claim{one->id, one->kind};
    }
    return std::nullopt;
  }

  // --- pools that pages serve -------------------------------------------------------------------

  // Let pages serve the pool's requests from its next activation on.
  void serve(Id id) {
    const std::lock_guard guard(mutex_);
    served_.insert(id);
  }

  // Let the allocator beneath serve the pool's next requests, even if the pool is active. Return
  // whether pages served it before.
  bool stop_serving(Id id) {
    const std::lock_guard guard(mutex_);
    for (Active& one : pools_) {
      if (one.id == id && one.kind == Kind::kServed) one.kind = Kind::kWithin;
    }
    return served_.erase(id) != 0;
  }

  bool serves(Id id) const {
    const std::lock_guard guard(mutex_);
    return served_.contains(id);
  }

 private:
  struct Active {
    Active(Id number, Filter claims, Kind its_kind)
        : id(number), filter(std::move(claims)), kind(its_kind) {}

    Id id;
    Filter filter;
    Kind kind;
    mutable std::atomic<bool> captured{false};
  };

  using Iterator = std::list<Active>::const_iterator;

  void count() {
    const auto captures = std::count_if(
        pools_.begin(), pools_.end(), [](const Active& one) { return one.kind == Kind::kCapture; });
    captures_.store(static_cast<int>(captures), std::memory_order_release);
    count_.store(static_cast<int>(pools_.size()), std::memory_order_release);
  }

  // Return the latest activation of the pool.
  Iterator find(Id id) const {
    const auto found = std::find_if(pools_.rbegin(), pools_.rend(),
                                    [&](const Active& one) { return one.id == id; });
    return found == pools_.rend() ? pools_.end() : std::prev(found.base());
  }

  // Not a shared mutex: a forked child has another thread id, and could not release it.
  mutable std::mutex mutex_;
  std::list<Active> pools_;
  std::set<Id> served_;
  std::atomic<int> captures_{0};
  std::atomic<int> count_{0};
};

}  // namespace
