// Active allocation pools of one device: graph captures and torch.cuda.MemPool.
//
// Blocks of a pool must come from that pool, because a captured graph replays with their addresses.
// Requests that a pool's filter claims go to the allocator beneath, unseen by pgmo.

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

  // Return whether this active pool got a request while its stream was being captured.
  bool captured(c10::cuda::MempoolId_t id) const {
    const std::lock_guard guard(mutex_);
    const auto found = find(id);
    return found != pools_.end() && found->captured.load(std::memory_order_relaxed);
  }

  // Return whether a request of this thread on this stream belongs to an active pool.
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

  // Not a shared mutex: a forked child could not release its shared lock, as its thread id differs.
  mutable std::mutex mutex_;
  std::list<Active> pools_;
  std::atomic<int> count_{0};
};

}  // namespace
