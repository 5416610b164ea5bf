// File descriptors by which other processes may have pages: one a page, exported once.
//
//     page ──export──▶ descriptor, at a high number ──▶ handle of a tensor ──▶ another process
//       └─ released, or no tensor that was sent lies on it and numbers are scarce ──▶ closed
//
// The other process fetches a descriptor by its number, at any time while the tensor lives.
// Programs use low numbers themselves, and some fail above 1,024 (select), so those stay free.

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
    kDriver,      // it does not share this page
    kDescriptors  // the process may have no more
  };

  struct Result {
    int descriptor = -1;
    Failure failure = Failure::kNone;
    bool fresh = false;  // exported by this call
  };

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

  // Called when the page is released, or when no process was given its descriptor.
  void close_one(uint64_t page) {
    const std::lock_guard guard(mutex_);
    const auto known = descriptors_.find(page);
    if (known == descriptors_.end()) return;
    (void)close(known->second);
    descriptors_.erase(known);
    ++closed_;
  }

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

  // Number of descriptors closed so far. A number may have been reused since.
  uint32_t closed() {
    const std::lock_guard guard(mutex_);
    return closed_;
  }

  std::mutex& mutex() { return mutex_; }  // for forks

  // In a forked child, whose copies would keep the pages from the device. The mutex is held.
  void forget() {
    for (const auto& [page, descriptor] : descriptors_) (void)close(descriptor);
    descriptors_.clear();
  }

  static uint64_t limit() {
    rlimit most{};
    return getrlimit(RLIMIT_NOFILE, &most) == 0 ? most.rlim_cur : 0;
  }

 private:
  static constexpr uint64_t kLowNumbers = 1024;

  // Below 4,096 descriptors in all, the program keeps the lowest quarter of the numbers.
  static int lowest_number() { return static_cast<int>(std::min(kLowNumbers, limit() / 4)); }

  static bool raise_limit() {
    rlimit most{};
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur >= most.rlim_max) return false;
    most.rlim_cur = most.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &most) == 0;
  }

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

  std::mutex mutex_;  // of what follows
  std::map<uint64_t, int> descriptors_;
  uint32_t closed_ = 0;
};

}  // namespace
