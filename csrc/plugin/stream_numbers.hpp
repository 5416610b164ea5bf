// Small numbers for a device's streams, in order of first use; 0 is the default stream.
//
// A plan is used in other processes, where the handles are others. Reading takes no lock: it is
// part of every request.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "plugin/driver.hpp"

namespace pgmo::plugin {

class StreamNumbers {
 public:
  static constexpr std::uint64_t kUnnumbered = ~std::uint64_t{0};

  // None for the per-thread default stream: one handle for a stream in each thread, so what one
  // thread frees must not be handed to another. Nor when there are too many streams.
  std::optional<std::uint64_t> number(Stream stream) noexcept {
    if (stream == kDefaultStream) return 0;
    if (stream == kPerThreadStream) return std::nullopt;
    const std::uint32_t known = count_.load(std::memory_order_acquire);
    if (const auto found = find(stream, 1, known)) return found;
    const std::lock_guard guard(adding_);
    const std::uint32_t count = count_.load(std::memory_order_relaxed);
    if (const auto found = find(stream, known, count)) return found;
    if (count == kMost) return std::nullopt;
    handles_[count] = stream;
    count_.store(count + 1, std::memory_order_release);
    return count;
  }

  std::optional<Stream> stream(std::uint64_t number) const noexcept {
    if (number >= count_.load(std::memory_order_acquire)) return std::nullopt;
    return handles_[number];
  }

 private:
  static constexpr std::uint32_t kMost = 256;

  std::optional<std::uint64_t> find(Stream stream, std::uint32_t from,
                                    std::uint32_t to) const noexcept {
    for (std::uint32_t at = from; at < to; ++at) {
      if (handles_[at] == stream) return at;
    }
    return std::nullopt;
  }

  std::array<Stream, kMost> handles_{};  // handles_[0] is the default stream
  std::atomic<std::uint32_t> count_{1};
  std::mutex adding_;
};

}  // namespace pgmo::plugin
