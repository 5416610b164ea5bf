// Loop of allocations and frees, without Python. overhead.py calls it through ctypes.
//
//   ring of `live` blocks:   [ a0 | a1 | a2 | ... ]     each turn replaces the oldest

#include <c10/cuda/CUDACachingAllocator.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace {

constexpr size_t kAddresses = size_t{64} << 30;
constexpr size_t kStride = 512;

}  // namespace

extern "C" {

// Returns nanoseconds per allocation and free on the current device and stream, through the
// installed allocator. They include the frees of all blocks at the end.
double allocation_loop(const int64_t* sizes, int64_t count, int64_t turns, int64_t live) {
  c10::Allocator* allocator = c10::cuda::CUDACachingAllocator::get();
  std::vector<c10::DataPtr> ring(static_cast<size_t>(live));
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t turn = 0; turn < turns; ++turn) {
    c10::DataPtr& place = ring[static_cast<size_t>(turn % live)];
    place.clear();
    place = allocator->allocate(static_cast<size_t>(sizes[turn % count]));
  }
  for (c10::DataPtr& place : ring) {
    place.clear();
  }
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::nano>(end - begin).count() / static_cast<double>(turns);
}

// A plug-in that returns ascending addresses, which are never written. So the measured time is
// nearly all torch's own cost for a plug-in.
void* plain_alloc(size_t /*size*/, int /*device*/, cudaStream_t /*stream*/) {
  static char* const base = static_cast<char*>(
      mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  static std::atomic<size_t> next{0};
  return base + next.fetch_add(kStride, std::memory_order_relaxed) % kAddresses;
}

void plain_free(void* /*block*/, size_t /*size*/, int /*device*/, cudaStream_t /*stream*/) {}

}  // extern "C"
