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
#include <list>
#include <mutex>
#include <utility>

namespace {

class ActivePools {
 public:
  using Filter = std::function<bool(cudaStream_t)>;

  void begin(c10::cuda::MempoolId_t id, Filter filter) {
    const std::lock_guard guard(mutex_);
    pools_.emplace_back(id, std::move(filter));
    count_.store(static_cast<int>(pools_.size()), std::memory_order_release);
  }

  void end(c10::cuda::MempoolId_t id) {
    const std::lock_guard guard(mutex_);
    const auto found = find(id);
    if (found != pools_.end()) pools_.erase(found);
    count_.store(static_cast<int>(pools_.size()), std::memory_order_release);
  }

  std::mutex& mutex() { return mutex_; }  // for forks
  bool any() const { return count_.load(std::memory_order_acquire) != 0; }

  // Whether a request was sent to this pool, which is active, while its stream was being captured.
  bool captured(c10::cuda::MempoolId_t id) const {
    const std::lock_guard guard(mutex_);
    const auto found = find(id);
    return found != pools_.end() && found->captured.load(std::memory_order_relaxed);
  }

  // Whether a request of this thread on this stream belongs to one of them.
  bool claim(cudaStream_t stream) const {
    if (!any()) [[likely]]
      return false;
    const std::lock_guard guard(mutex_);
    for (const Active& one : pools_) {
      if (!one.filter(stream)) continue;
      if (!one.captured.load(std::memory_order_relaxed) && is_captured(stream)) {
        one.captured.store(true, std::memory_order_relaxed);
      }
      return true;
    }
    return false;
  }

 private:
  struct Active {
    Active(c10::cuda::MempoolId_t number, Filter claims) : id(number), filter(std::move(claims)) {}

    c10::cuda::MempoolId_t id;
    Filter filter;
    mutable std::atomic<bool> captured{false};
  };

  static bool is_captured(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) (void)cudaGetLastError();
    return status != cudaStreamCaptureStatusNone;
  }

  std::list<Active>::const_iterator find(c10::cuda::MempoolId_t id) const {
    return std::find_if(pools_.begin(), pools_.end(),
                        [&](const Active& one) { return one.id == id; });
  }

  // No shared one: what a forked child holds of that, it cannot free, for its thread has another
  // number.
  mutable std::mutex mutex_;
  std::list<Active> pools_;
  std::atomic<int> count_{0};
};

}  // namespace
