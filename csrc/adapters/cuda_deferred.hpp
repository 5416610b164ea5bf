// Slots that other streams use: freed only when those streams have come so far.
//
//     record_stream(slot, s) ──▶ noted
//     free(slot)             ──▶ an event on s ──▶ ... completed ──▶ the engine's `release`
//
// For the engine such a block simply lives longer than planned: it is a late one, and its slot is
// not handed out. Torch's own allocator treats its blocks in the same way.

#pragma once

#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

// Makes a device current, and the one before again at the end. Errors are left to the calls inside.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = device;
    if (before_ != device) (void)cudaSetDevice(device);
    changed_ = before_ != device;
  }
  ~OnDevice() {
    if (changed_) (void)cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

// Lets this thread ask about events that no capture has seen: otherwise such a question, from
// whichever thread, ends a capture that is under way.
class BesideCaptures {
 public:
  BesideCaptures() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~BesideCaptures() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

inline bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(stream, &status);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

class DeferredFrees {
 public:
  // The block is used on this stream.
  void note(void* block, cudaStream_t stream) {
    const std::lock_guard guard(mutex_);
    std::vector<cudaStream_t>& streams = uses_[block];
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
      streams.push_back(stream);
    }
    busy_.store(true, std::memory_order_release);
  }

  // Whether anything is noted or waiting: one load for everybody else.
  bool busy() const { return busy_.load(std::memory_order_acquire); }

  // True: the block is used on other streams and has been put off.
  bool defer(int device, void* block) {
#ifdef PGMO_BREAK_RECORD_STREAM  // for the test that shows that the tests would notice
    (void)device, (void)block;
    return false;
#else
    if (!busy()) [[likely]]
      return false;
    const std::lock_guard guard(mutex_);
    const auto use = uses_.find(block);
    if (use == uses_.end()) return false;
    Waiting waiting{block, std::move(use->second), {}};
    uses_.erase(use);
    const OnDevice on(device);
    record(waiting);
    waiting_.push_back(std::move(waiting));
    return true;
#endif
  }

  // The blocks whose streams are done. Looks at a few of those that wait.
  std::vector<void*> finished(int device, size_t most = kMostLooks) {
    std::vector<void*> done;
    if (!busy()) return done;
    const std::lock_guard guard(mutex_);
    const OnDevice on(device);
    const BesideCaptures beside;
    for (size_t at = 0; at < waiting_.size() && most > 0; --most) {
      if (!is_done(waiting_[at])) {
        ++at;
        continue;
      }
      done.push_back(waiting_[at].block);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    busy_.store(!uses_.empty() || !waiting_.empty(), std::memory_order_release);
    return done;
  }

 private:
  static constexpr size_t kMostLooks = 4;

  struct Waiting {
    void* block;
    std::vector<cudaStream_t> streams;  // on which an event is still to be recorded
    std::vector<cudaEvent_t> events;
  };

  // An event cannot be recorded into a capture; then that is tried again later.
  static void record(Waiting& waiting) {
    std::erase_if(waiting.streams, [&](cudaStream_t stream) {
      if (is_capturing(stream)) return false;
      cudaEvent_t event = nullptr;
      if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess ||
          cudaEventRecord(event, stream) != cudaSuccess) {
        // CUDA is going down, or broken: nothing on that stream will ever run.
        (void)cudaGetLastError();
        return true;
      }
      waiting.events.push_back(event);
      return true;
    });
  }

  static bool is_done(Waiting& waiting) {
    if (!waiting.streams.empty()) record(waiting);
    std::erase_if(waiting.events, [](cudaEvent_t event) {
      const cudaError_t state = cudaEventQuery(event);
      if (state != cudaSuccess) (void)cudaGetLastError();
      if (state == cudaErrorNotReady) return false;
      (void)cudaEventDestroy(event);
      return true;
    });
    return waiting.streams.empty() && waiting.events.empty();
  }

  std::mutex mutex_;
  std::unordered_map<void*, std::vector<cudaStream_t>> uses_;
  std::vector<Waiting> waiting_;
  std::atomic<bool> busy_{false};
};

}  // namespace
