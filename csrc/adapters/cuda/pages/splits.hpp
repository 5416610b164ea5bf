// Mirrors the gaps in the program's own segments when a session begins.
//
// A model built before the session leaves gaps in PyTorch's segments ("inactive split blocks").
// They cannot become pages, because a segment returns to the card only when its last block is
// freed. So a request that fits a gap goes to the allocator beneath before pages are used.
//
// That allocator cannot be asked for its gaps without growing, so they are mirrored here by its
// rules: best fit by size, then address; remainders above 1 MiB are split off; neighbours merge.
// Each result is compared with the expected one. The first difference (a tensor of the model was
// freed, or a cache emptied) ends the mirror, and pages serve as if there were no gaps.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// One per device. Thread-safe.
class SplitBlocks {
 public:
  struct Gap {
    uint64_t address;
    uint64_t bytes;
    uint64_t segment;
    uint64_t stream;  // stream number
  };

  // Requests above this size come from segments of 20 MiB and more, smaller ones from others.
  static constexpr uint64_t kSmall = uint64_t{1} << 20;

  std::mutex& mutex() { return mutex_; }  // for forks
  bool any() const { return any_.load(std::memory_order_relaxed); }

  // Set all gaps, in any order.
  void are(std::vector<Gap> gaps) {
    const std::lock_guard guard(mutex_);
    std::sort(gaps.begin(), gaps.end(),
              [](const Gap& one, const Gap& other) { return one.address < other.address; });
    gaps_ = std::move(gaps);
    taken_.clear();
    any_.store(!gaps_.empty(), std::memory_order_relaxed);
  }

  // Return the address where the allocator beneath will serve the request without growing, or null.
  const void* expected(uint64_t bytes, uint64_t stream) {
    if (bytes <= kSmall) return nullptr;
    const std::lock_guard guard(mutex_);
    const uint64_t needed = (bytes + 511) / 512 * 512;
    auto best = gaps_.end();
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      if (gap->stream != stream || gap->bytes < needed) continue;
      if (best == gaps_.end() || gap->bytes < best->bytes) best = gap;
    }
    if (best == gaps_.end()) return nullptr;
    Gap taken = *best;
    if (best->bytes - needed > kSmall) {
      taken.bytes = needed;
      best->address += needed;
      best->bytes -= needed;
    } else {
      gaps_.erase(best);
    }
    taken_.emplace(taken.address, taken);
    return reinterpret_cast<const void*>(taken.address);
  }

  // Compare the actual address with the expected one.
  void served(const void* expected, const void* address) {
    if (address != expected) end();
  }

  // End the mirror: from now on pages serve as if there were no gaps.
  void end() {
    const std::lock_guard guard(mutex_);
    forget();
  }

  // End the mirror. Requires the mutex.
  void forget() {
    gaps_.clear();
    taken_.clear();
    any_.store(false, std::memory_order_relaxed);
  }

  // Note that the block was given back to the allocator beneath.
  void freed(const void* block) {
    const std::lock_guard guard(mutex_);
    const auto found = taken_.find(reinterpret_cast<uintptr_t>(block));
    if (found == taken_.end()) return;
    const Gap gap = found->second;
    taken_.erase(found);
    try {
      insert(gap);
    } catch (const std::bad_alloc&) {  // a free cannot report errors
      forget();
    }
  }

  // Forget a block used on other streams: it is unknown when the allocator beneath has it back.
  void lose(const void* block) {
    const std::lock_guard guard(mutex_);
    taken_.erase(reinterpret_cast<uintptr_t>(block));
  }

 private:
  void insert(const Gap& gap) {
    auto after =
        std::upper_bound(gaps_.begin(), gaps_.end(), gap.address,
                         [](uintptr_t address, const Gap& one) { return address < one.address; });
    const auto adjoin = [](const Gap& low, const Gap& high) {
      return low.segment == high.segment && low.address + low.bytes == high.address;
    };
    auto at = gaps_.insert(after, gap);
    if (const auto next = at + 1; next != gaps_.end() && adjoin(*at, *next)) {
      at->bytes += next->bytes;
      gaps_.erase(next);
    }
    if (at != gaps_.begin() && adjoin(*(at - 1), *at)) {
      (at - 1)->bytes += at->bytes;
      gaps_.erase(at);
    }
  }

  std::atomic<bool> any_{false};
  std::mutex mutex_;                          // guards the following members
  std::vector<Gap> gaps_;                     // by address
  std::unordered_map<uintptr_t, Gap> taken_;  // gaps in use, by address
};

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
