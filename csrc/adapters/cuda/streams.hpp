// Numbers of the streams of one device, in order of first use; 0 is the default stream.
// Thread-safe; no other lock is taken under its lock.
//
// A handle is an address that differs between processes; a number is the same in all runs that
// first use their streams in the same order. So profiles and plans use numbers.

#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace {

class StreamNumbers {
 public:
  // Maximum number of streams whose requests get numbers. pgmo serves no request of other streams.
  static constexpr uint32_t kMost = 64;
  // Maximum number of further streams that record or wait for events. Events of others are ignored.
  static constexpr uint32_t kMostOrderOnly = 256;

  // Return the stream's number. The first call for a stream gives it a new number. Return nullopt
  // if the stream has no number and `kMost` streams have one.
  std::optional<uint32_t> number_of(cudaStream_t stream) {
    if (stream == nullptr) return 0;
    if (const auto known = find(stream)) return known;
    return add(stream);
  }

  // Return the stream's number for the order of streams. A stream that has made no request yet gets
  // a number from `kMost` on. Return nullopt if `kMostOrderOnly` streams have one.
  std::optional<uint32_t> number_for_order(cudaStream_t stream) {
    if (stream == nullptr) return 0;
    if (const auto known = find(stream)) return known;
    const std::lock_guard guard(mutex_);
    for (uint32_t at = 0; at < order_only_count_; ++at) {
      if (order_only_[at] == stream) return kMost + at;
    }
    if (order_only_count_ == kMostOrderOnly) return std::nullopt;
    order_only_[order_only_count_] = stream;
    return kMost + order_only_count_++;
  }

  // Return the handles of all streams with a number of either kind, and the default stream.
  std::vector<cudaStream_t> all() {
    const std::lock_guard guard(mutex_);
    const auto count = static_cast<std::ptrdiff_t>(count_.load(std::memory_order_relaxed));
    std::vector<cudaStream_t> found(handles_.begin(), handles_.begin() + count);
    found.insert(found.end(), order_only_.begin(), order_only_.begin() + order_only_count_);
    return found;
  }

  std::mutex& mutex() { return mutex_; }  // for forks
  // Return whether a stream that makes requests has this number.
  bool known(uint64_t number) const { return number < count_.load(std::memory_order_acquire); }
  cudaStream_t handle(uint64_t number) const { return handles_[number]; }

 private:
  // Return the number that the stream has already, without the lock.
  std::optional<uint32_t> find(cudaStream_t stream) const {
    const uint32_t count = count_.load(std::memory_order_acquire);
    for (uint32_t number = 1; number < count; ++number) {
      if (handles_[number] == stream) return number;
    }
    return std::nullopt;
  }

  std::optional<uint32_t> add(cudaStream_t stream) {
    const std::lock_guard guard(mutex_);
    if (const auto known = find(stream)) return known;
    const uint32_t count = count_.load(std::memory_order_relaxed);
    if (count == kMost) return std::nullopt;
    handles_[count] = stream;
    count_.store(count + 1, std::memory_order_release);
    return count;
  }

  std::mutex mutex_;
  std::array<cudaStream_t, kMost> handles_{};
  std::atomic<uint32_t> count_{1};
  std::array<cudaStream_t, kMostOrderOnly> order_only_{};
  uint32_t order_only_count_ = 0;
};

}  // namespace
