// Mirror of the gaps in torch's segments, for requests of a session.
//
// A model that was built before the session leaves gaps in PyTorch's segments ("inactive split
// blocks"). Their memory cannot become pages, because a segment returns to the card only when its
// last block is freed. So the allocator beneath serves requests that fit a gap.
//
// That allocator cannot be asked for a gap only: if no gap fits, it takes a new segment. So this
// class follows the allocator's rules: best fit by size, then address; remainders above 1 MiB are
// split off; neighbours merge. Each address that the allocator returns is compared with the address
// in the mirror. The two differ after a tensor of the model was freed, or the cache emptied. At the
// first difference the mirror ends, and pages serve as if there were no gaps.

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

// Gaps of one device. Thread-safe; no other lock is taken under its lock. Sizes are in bytes.
class SplitBlocks {
 public:
  struct Gap {
    uint64_t address;
    uint64_t bytes;
    uint64_t segment;  // address of the segment
    uint64_t stream;   // number of the stream
  };

  // Gaps are mirrored in segments of large blocks only. PyTorch serves requests up to this size (1
  // MiB) from other segments.
  static constexpr uint64_t kSmall = uint64_t{1} << 20;

  std::mutex& mutex() { return mutex_; }  // for forks
  bool any() const { return any_.load(std::memory_order_relaxed); }

  // Set all gaps, in any order.
  void set(std::vector<Gap> gaps) {
    const std::lock_guard guard(mutex_);
    std::sort(gaps.begin(), gaps.end(),
              [](const Gap& one, const Gap& other) { return one.address < other.address; });
    gaps_ = std::move(gaps);
    taken_.clear();
    any_.store(!gaps_.empty(), std::memory_order_relaxed);
  }

  // Take a block from the best gap. Return its address, at which the allocator beneath should serve
  // the request. Return null if the request fits no gap, or has at most `kSmall` bytes.
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

  // Compare the address at which the allocator beneath served a request with the expected address.
  // End the mirror if they differ.
  void served(const void* expected, const void* address) {
    if (address != expected) stop();
  }

  // End the mirror: from now on pages serve as if there were no gaps.
  void stop() {
    const std::lock_guard guard(mutex_);
    forget();
  }

  // End the mirror. Requires the mutex.
  void forget() {
    gaps_.clear();
    taken_.clear();
    any_.store(false, std::memory_order_relaxed);
  }

  // Make the memory of a block a gap again, because the allocator beneath has freed the block. Does
  // nothing if the block did not lie in a gap.
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

  // Forget a block that other streams use, because the mirror cannot know when the allocator
  // beneath reuses its memory.
  void forget_block(const void* block) {
    const std::lock_guard guard(mutex_);
    taken_.erase(reinterpret_cast<uintptr_t>(block));
  }

 private:
  // Add a gap, merged with its neighbours in the segment. Throws std::bad_alloc.
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
  std::unordered_map<uintptr_t, Gap> taken_;  // blocks in gaps, by address
};

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
