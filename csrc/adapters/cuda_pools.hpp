// Allocation pools that are active on one device: graph captures and torch.cuda.MemPool.
//
// Blocks of a pool must come from that pool, for a captured graph replays with their addresses. So
// what a pool's filter claims is left to the allocator beneath, and pgmo never hears of it.

#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace {

class ActivePools {
 public:
  using Filter = std::function<bool(cudaStream_t)>;

  void begin(c10::cuda::MempoolId_t id, Filter filter) {
    const std::unique_lock guard(mutex_);
    pools_.emplace_back(id, std::move(filter));
    count_.store(static_cast<int>(pools_.size()), std::memory_order_release);
    ever_.store(true, std::memory_order_relaxed);
  }

  void end(c10::cuda::MempoolId_t id) {
    const std::unique_lock guard(mutex_);
    const auto found = std::find_if(pools_.begin(), pools_.end(),
                                    [&](const auto& one) { return one.first == id; });
    if (found != pools_.end()) pools_.erase(found);
    count_.store(static_cast<int>(pools_.size()), std::memory_order_release);
  }

  bool any() const { return count_.load(std::memory_order_acquire) != 0; }

  // Whether one was active since the process began.
  bool ever() const { return ever_.load(std::memory_order_relaxed); }

  // Whether a request of this thread on this stream belongs to one of them.
  bool claim(cudaStream_t stream) const {
    if (!any()) [[likely]]
      return false;
    const std::shared_lock guard(mutex_);
    return std::any_of(pools_.begin(), pools_.end(),
                       [&](const auto& one) { return one.second(stream); });
  }

 private:
  mutable std::shared_mutex mutex_;
  std::vector<std::pair<c10::cuda::MempoolId_t, Filter>> pools_;
  std::atomic<int> count_{0};
  std::atomic<bool> ever_{false};
};

}  // namespace
