// One device's memory, as the driver gives it.
//
//     take, give               the driver's stream-ordered pool: cuMemAllocAsync, cuMemFreeAsync
//     take_plain, give_plain   for captured graphs: cuMemAlloc, cuMemFree
//
// A stream in capture must not be touched, so a free there waits, parked, until the capture has
// ended. So do all plain ones while there is any capture: cuMemFree may wait for the whole device.

#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "plugin/driver.hpp"

namespace pgmo::plugin {

class DeviceMemory {
 public:
  explicit DeviceMemory(int ordinal) : ordinal_(ordinal) {}

  // Retains the device's primary context, the one that the CUDA runtime uses. Throws
  // std::runtime_error without a driver or without such a device.
  void open();

  // A block, or nullptr: there is not so much memory, after the cache was emptied, too. Throws
  // std::runtime_error when the driver fails otherwise.
  void* take(std::size_t bytes, Stream stream);
  void give(void* pointer, std::size_t bytes, Stream stream) noexcept;
  void* take_plain(std::size_t bytes);
  void give_plain(void* pointer, std::size_t bytes) noexcept;

  // Frees that waited for a capture to end; does nothing quickly when there are none.
  void give_parked() noexcept;

  // Returns unused memory to the system. Waits for the device first, unless a capture forbids it.
  void empty_cache() noexcept;

  // The share of the device's memory that `take` and `take_plain` may hold together.
  void set_fraction(double fraction);

  bool is_capturing(Stream stream) const noexcept;
  void synchronize(Stream stream) const noexcept;
  void synchronize() const noexcept;
  void* base_of(void* pointer, std::size_t* bytes) const noexcept;

  struct Levels {
    std::size_t total = 0;  // of the device
    std::size_t free = 0;
    std::size_t allowed = 0;   // by set_fraction; 0: all of it
    std::size_t reserved = 0;  // held by the stream-ordered pool
    std::size_t used = 0;      // of these, by living blocks
  };
  Levels levels() const noexcept;

  // Bytes of living blocks: stream-ordered ones, arenas included, and plain ones.
  std::size_t ordered_bytes() const noexcept { return ordered_.load(std::memory_order_relaxed); }
  std::size_t plain_bytes() const noexcept { return plain_.load(std::memory_order_relaxed); }

  int ordinal() const noexcept { return ordinal_; }
  const Driver& functions() const noexcept { return *driver_; }
  Context context() const noexcept { return context_; }

 private:
  struct Parked {
    void* pointer;
    std::size_t bytes;
    Stream stream;
    bool is_plain;
  };

  void park(const Parked& one) noexcept;
  bool must_wait(const Parked& one) const noexcept;

  bool allows(std::size_t bytes) const noexcept;
  template <typename Attempt>
  void* attempt_twice(std::size_t bytes, const char* call, Attempt&& attempt);

  const int ordinal_;
  std::atomic<bool> is_open_{false};
  std::mutex opening_;
  const Driver* driver_ = nullptr;  // this and the next two are set once, before is_open_
  Context context_ = nullptr;
  MemoryPool pool_ = nullptr;

  std::atomic<std::size_t> allowed_{0};
  std::atomic<std::size_t> ordered_{0};
  std::atomic<std::size_t> plain_{0};

  std::mutex parking_;
  std::vector<Parked> parked_;
  std::atomic<std::size_t> parked_count_{0};
};

}  // namespace pgmo::plugin
