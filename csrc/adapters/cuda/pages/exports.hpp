// File descriptors through which other processes map pages: one per exported page. Thread-safe; no
// other lock is taken under its lock.
//
//     page ──export──▶ descriptor, at a high number ──▶ handle of a tensor ──▶ another process
//       └─ released                                                 ──▶ descriptor is closed
//       └─ no sent tensor lies there, and descriptors are scarce    ──▶ descriptor is closed
//
// While the tensor lives, the other process copies the descriptor, whose number it knows. Numbers
// below 1,024 stay free for the program, because calls like select() fail with higher numbers.

#pragma once

#include <cuda.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_set>

namespace {

class Exports {
 public:
  using Export = decltype(&cuMemExportToShareableHandle);

  enum class Failure {
    kNone,
    kDriver,      // the driver refuses to export this page
    kDescriptors  // the process has reached its limit of descriptors
  };

  struct Result {
    int descriptor = -1;
    Failure failure = Failure::kNone;
    bool fresh = false;  // exported by this call
  };

  // Return the page's descriptor, exported if necessary. `driver`: cuMemExportToShareableHandle.
  Result find_or_export(Export driver, uint64_t page) {
    const std::lock_guard guard(mutex_);
    const auto known = descriptors_.find(page);
    if (known != descriptors_.end()) return {known->second};
    Result result = export_page(driver, page);
    while (result.failure == Failure::kDescriptors && raise_limit()) {
      result = export_page(driver, page);
    }
    if (result.descriptor >= 0) descriptors_.emplace(page, result.descriptor);
    return result;
  }

  // Close the page's descriptor: the page is released, or no process was given the descriptor.
  void close_one(uint64_t page) {
    const std::lock_guard guard(mutex_);
    const auto known = descriptors_.find(page);
    if (known == descriptors_.end()) return;
    (void)close(known->second);
    descriptors_.erase(known);
    ++closed_;
  }

  // Close the descriptors of all pages except these.
  void close_all_but(const std::unordered_set<uint64_t>& pages) {
    const std::lock_guard guard(mutex_);
    for (auto at = descriptors_.begin(); at != descriptors_.end();) {
      if (pages.count(at->first) != 0) {
        ++at;
        continue;
      }
      (void)close(at->second);
      at = descriptors_.erase(at);
      ++closed_;
    }
  }

  size_t count() {
    const std::lock_guard guard(mutex_);
    return descriptors_.size();
  }

  // Return how many descriptors were closed so far. Their numbers may have been reused since.
  uint32_t closed() {
    const std::lock_guard guard(mutex_);
    return closed_;
  }

  std::mutex& mutex() { return mutex_; }  // for forks

  // Close all descriptors in a forked child, because the child's copies would keep the pages
  // allocated. Requires the mutex.
  void forget() {
    for (const auto& [page, descriptor] : descriptors_) (void)close(descriptor);
    descriptors_.clear();
  }

  // Return the maximum number of descriptors of this process.
  static uint64_t limit() {
    rlimit most{};
    return getrlimit(RLIMIT_NOFILE, &most) == 0 ? most.rlim_cur : 0;
  }

 private:
  static constexpr uint64_t kLowNumbers = 1024;

  // With a limit below 4,096 descriptors, leave the lowest quarter of the numbers to the program.
  static int lowest_number() { return static_cast<int>(std::min(kLowNumbers, limit() / 4)); }

  // Raise the limit of descriptors to the maximum that the system allows. Return false if the limit
  // is the maximum already, or if the system refuses.
  static bool raise_limit() {
    rlimit most{};
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur >= most.rlim_max) return false;
    most.rlim_cur = most.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &most) == 0;
  }

  // Return whether the process can open another descriptor.
  static bool any_left() {
    const int probe = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (probe >= 0) (void)close(probe);
    return probe >= 0;
  }

  static Result export_page(Export driver, uint64_t page) {
    int low = -1;
    if (driver(&low, page, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS) {
      return {-1, any_left() ? Failure::kDriver : Failure::kDescriptors};
    }
    const int high = fcntl(low, F_DUPFD_CLOEXEC, lowest_number());
    (void)close(low);
    if (high < 0) return {-1, Failure::kDescriptors};
    return {high, Failure::kNone, true};
  }

  std::mutex mutex_;  // guards the following members
  std::map<uint64_t, int> descriptors_;
  uint32_t closed_ = 0;
};

}  // namespace
