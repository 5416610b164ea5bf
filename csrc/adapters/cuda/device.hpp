// State of the CUDA adapter per device, and the path of a free. Members of Device are atomic,
// thread-safe, or guarded as noted.
//
//     free ──▶ other streams use it? ──yes──▶ delayed: see cuda/deferred.hpp
//                     └─ no ──▶ engine: a slot ──▶ done
//                                      foreign ──▶ pages: a block of a window ──▶ done
//                                                         else ──▶ the allocator beneath

#pragma once

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "adapters/cuda/baseline.hpp"
#include "adapters/cuda/deferred.hpp"
#include "adapters/cuda/history/history.hpp"
#include "adapters/cuda/pages/page_device.hpp"
#include "adapters/cuda/pages/splits.hpp"
#include "adapters/cuda/pools/active.hpp"
#include "adapters/cuda/streams.hpp"
#include "adapters/torch_common.hpp"
#include "engine/pgmo_engine.h"
#include "pages/pgmo_pages.h"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

constexpr int kMostUpstreams = 4;  // allocators that the process may install one after another
constexpr int kMostEngines = 32;   // maximum number of sessions per device

const pgmo_engine_api* api = nullptr;
const pgmo_pages_api* pages_api = nullptr;

// Totals of slots and blocks of windows: bytes and number, allocated and freed. Also the numbers of
// pages created and released.
enum Total : uint8_t { kBytes, kFreedBytes, kBlocks, kFreedBlocks, kCreates, kReleases, kTotals };

// Corrections of torch's counts of failures. Negative: failed attempts that the allocator beneath
// counts although a retry followed. Positive: failures that the allocator beneath does not see.
struct Failures {
  std::atomic<int64_t> ooms{0}, retries{0};
};

// The program's memory fraction, which applies to pages and the allocator beneath together.
struct Fraction {
  bool limits() const {
    const double now = whole.load();
    return now >= 0 && now < 1.0;
  }

  std::atomic<double> whole{-1};  // -1: unknown
  std::mutex mutex;               // guards `beneath`, and changes of `whole`
  double beneath = -1;            // the fraction set for the allocator beneath
};

// State of one device. Never destroyed.
struct Device {
  int index = 0;
  std::atomic<pgmo_engine*> engine{nullptr};   // engine of the session whose turn it is; not owned
  std::atomic<const uint32_t*> mode{nullptr};  // the engine's mode word; null: no session yet
  // Engines of all sessions that ever began; not owned. Each may have live slots.
  std::array<pgmo_engine*, kMostEngines> engines{};
  std::atomic<int> engine_count{0};
  StreamNumbers streams;
  ActivePools pools;
  DeferredFrees deferred;
  BaselineFeed baseline;
  std::mutex mutex;  // guards the next three, and is held while sessions and pages are opened
  std::string advice;
  std::unordered_set<void*> raw_slots;  // blocks of pgmo from raw_alloc, which have no deleter
  std::unordered_set<void*> survivors;  // see `pgmo_survive`
  std::atomic<bool> has_survivors{false};
  std::atomic<bool> attended{false};  // whether a session is open, which polls delayed frees

  // Pages, once opened; see cuda/pages/windows.hpp.
  std::atomic<pgmo_space*> space{nullptr};
  std::atomic<bool> serves_pages{false};      // whether requests without a slot go to pages
  uint64_t card = 0;                          // bytes of the card; 0: unknown
  std::atomic<uint64_t> limit{~uint64_t{0}};  // maximum bytes of a session's pages
  Fraction fraction;
  std::atomic<bool> trim_due{false};  // call `trim_cache_beneath` once no lock is held
  SplitBlocks splits;
  std::atomic<int64_t> stays_beneath{0};  // least unused bytes beneath since the last emptied cache
  // Totals at the last reset of torch's accumulated statistics.
  std::array<std::atomic<int64_t>, kTotals> before_reset{};
  Failures failures;
  // Points to a word that is not 0 while a peak needs a call of `confirm_peak`. Null: no pages.
  std::atomic<const uint32_t*> unconfirmed{nullptr};
  std::unique_ptr<PageDevice> page_device;
  bool aliases = false;  // whether a page can be mapped at two addresses

  // Graphs whose pools share pages, once there are some; see cuda/graphs/serving.hpp.
  std::atomic<const std::atomic<int64_t>*> saved_in_graphs{nullptr};
  std::atomic<int64_t> peak_before_graphs{0};  // torch's peak of reserved bytes before these graphs

  // Return whether the session whose turn it is records or serves.
  bool active() const {
    const uint32_t* word = mode.load(std::memory_order_acquire);
    return word != nullptr && __atomic_load_n(word, __ATOMIC_RELAXED) != 0;
  }
  // Return whether a session has ever begun on the device.
  bool connected() const { return mode.load(std::memory_order_acquire) != nullptr; }
  // Call `visit` with each engine until a call returns true. Return whether one did.
  template <typename Visit>
  bool any_engine(Visit&& visit) const {
    const int count = engine_count.load(std::memory_order_acquire);
    for (int at = 0; at < count; ++at) {
      if (visit(engines[at])) return true;
    }
    return false;
  }
  bool peak_unconfirmed() const {
    const uint32_t* word = unconfirmed.load(std::memory_order_acquire);
    return word != nullptr && __atomic_load_n(word, __ATOMIC_RELAXED) != 0;
  }
  // Return the bytes that graphs' segments save, because pages are shared or lent.
  int64_t saved() const {
    const auto* const bytes = saved_in_graphs.load(std::memory_order_acquire);
    return bytes == nullptr ? 0 : bytes->load(std::memory_order_relaxed);
  }
  // `paged`: pages serve requests without a slot. `pages`: the page space; null: not opened.
  bool paged() const { return serves_pages.load(std::memory_order_acquire); }
  pgmo_space* pages() const { return space.load(std::memory_order_acquire); }
};

std::array<Device, kMostDevices>& devices() {
  static auto* const all = [] {
    auto* made = new std::array<Device, kMostDevices>;
    for (int index = 0; index < kMostDevices; ++index) (*made)[index].index = index;
    return made;
  }();
  return *all;
}

// Whether the process has used CUDA. If so, a child that is forked later cannot use CUDA.
std::atomic<bool> cuda_used{false};

// Whether this process is a forked child, which has no device: CUDA belongs to the parent.
std::atomic<bool> forked{false};

// Return the device; nullptr if pgmo does not support devices of this index.
Device* device_or_null(int index) {
  return index < 0 || index >= kMostDevices ? nullptr : &devices()[static_cast<size_t>(index)];
}

BaselineFeed* feed_of(int device) {
  Device* const known = device_or_null(device);
  return known != nullptr ? &known->baseline : nullptr;
}

// Number of times that the adapter was uninstalled. While uninstalled, the adapter did not see the
// use of blocks on other streams.
std::atomic<uint64_t> absences{0};

// Wait for all work of the device. Does nothing in a forked child, or if a capture may be in
// progress, which waiting would break.
void synchronize(const Device& device) {
  if (device.pools.any() || forked.load()) return;
  try {
    const OnDevice on(device.index);
    const BesideCaptures beside;  // other devices may be capturing
    if (cudaDeviceSynchronize() != cudaSuccess) (void)cudaGetLastError();
  } catch (const std::exception&) {
    // CUDA is shutting down, so nothing runs there any more.
  }
}

// --- freeing ------------------------------------------------------------------------------------

std::array<CUDAAllocator*, kMostUpstreams> upstreams{};

// Report to torch's profiler that `bytes` were allocated (negative: freed) at the block. `gone`:
// bytes of the freed block that are still counted as live.
void report_to_profiler(const Device& device, void* block, int64_t bytes, int64_t gone = 0) {
  uint64_t live = 0, held = 0;
  device.any_engine([&](pgmo_engine* engine) {
    pgmo_engine_statistics now;
    api->statistics(engine, &now);
    live += now.live_slot_bytes;
    held += now.arena_bytes;
    return false;
  });
  if (device.pages() != nullptr) {
    pgmo_pages_statistics now;
    pages_api->statistics(device.pages(), &now);
    live += now.live_bytes;
    held = std::max(held, now.held_bytes);
  }
  c10::reportMemoryUsageToProfiler(block, bytes, live - static_cast<uint64_t>(gone), held,
                                   c10::Device(c10::DeviceType::CUDA, device.index));
}

// Report a slot or a block of a window to the model, the history and the profiler.
void report_allocation(Device& device, void* block, size_t bytes, uint32_t stream,
                       uint64_t pool = 0) {
  device.baseline.allocated(block, bytes, device.streams.handle(stream), pool);
  if (history().enabled()) [[unlikely]]
    history().note_allocation(device.index, block, bytes, device.streams.handle(stream));
  if (c10::memoryProfilingEnabled()) [[unlikely]]
    report_to_profiler(device, block, static_cast<int64_t>(bytes));
}

// Return the bytes of a slot or of a block of a window; 0 for other blocks.
uint64_t bytes_of(const Device& device, const void* block) {
  uint64_t bytes = 0;
  device.any_engine(
      [&](pgmo_engine* engine) { return (bytes = api->size_of(engine, block)) != 0; });
  if (bytes == 0 && device.pages() != nullptr) bytes = pages_api->size_of(device.pages(), block);
  return bytes;
}

// Report a free to the history; other streams may still use the block.
void report_free(const Device& device, void* block) {
  if (!history().enabled()) [[likely]]
    return;
  if (const uint64_t bytes = bytes_of(device, block)) {
    history().note_free_request(device.index, block, bytes);
  }
}

// Report that a block is released. Called before the release: after it, another thread might get
// the block and report it first.
void report_release(const Device& device, void* block) {
  const bool profiled = c10::memoryProfilingEnabled();
  const bool noted = history().enabled();
  if (!profiled && !noted) [[likely]]
    return;
  const auto bytes = static_cast<int64_t>(bytes_of(device, block));
  if (bytes == 0) return;
  if (profiled) report_to_profiler(device, block, -bytes, bytes);
  if (noted) history().note_release(device.index, block, static_cast<size_t>(bytes));
}

// Release the block in each engine, until one of them had the block as a slot. Return false if none
// had; engines that tracked the block have then forgotten it.
bool release_slot(const Device& device, void* block) {
  return device.any_engine(
      [&](pgmo_engine* engine) { return api->release(engine, block) == PGMO_SLOT; });
}

// Free a slot or a block of a window. Return false if the block belongs to the allocator beneath.
bool release_own(const Device& device, void* block) {
  if (release_slot(device, block)) return true;
  return device.pages() != nullptr && pages_api->deallocate(device.pages(), block) != 0;
}

// Report and free these blocks, whose delayed frees are due.
void release_all(const Device& device, const std::vector<void*>& blocks) {
  for (void* block : blocks) {
    report_release(device, block);
    (void)release_own(device, block);
  }
}

// Release blocks whose delayed frees are due: a few of them, or all.
void finish_deferred(Device& device) {
  release_all(device, device.deferred.finished());
}
void finish_all_deferred(Device& device) {
  release_all(device, device.deferred.finished(~size_t{0}));
}

// Release all blocks with delayed frees, after waiting for their streams. If a capture may be in
// progress, release only blocks whose frees are due.
void settle(Device& device) {
  finish_all_deferred(device);
  if (!device.deferred.any_waiting() || device.pools.any()) return;
  device.deferred.wait();
  finish_all_deferred(device);
}

// Stop polling, because no session is open on the device, and call `settle`.
void leave(Device& device) {
  device.attended.store(false);
  if (device.connected() || device.pages() != nullptr) settle(device);
}

// Synchronize the device if the block was alive while the adapter was not installed: other streams
// may have used it, because torch ignores record_stream for blocks with an unknown deleter.
void sync_if_detached(Device& device, void* block) {
  if (!device.has_survivors.load(std::memory_order_acquire)) [[likely]]
    return;
  {
    const std::lock_guard guard(device.mutex);
    if (device.survivors.erase(block) == 0) return;
    device.has_survivors.store(!device.survivors.empty(), std::memory_order_release);
  }
  synchronize(device);
}

// Free a block of any kind, or delay its free if other streams use it.
void release(Device& device, CUDAAllocator* upstream, void* block) {
  report_free(device, block);
  device.baseline.freed(block);
  if (device.deferred.defer(block)) {
    try {
      if (!device.attended.load(std::memory_order_relaxed)) settle(device);
    } catch (const std::bad_alloc&) {
      // The host is out of memory: the next session releases the block.
    }
    return;
  }
  report_release(device, block);
  sync_if_detached(device, block);
  if (release_own(device, block)) return;
  upstream->raw_delete(block);
  if (device.splits.any()) [[unlikely]]
    device.splits.freed(block);
}

// A deleter has no context, so there is one for each pair of upstream and device.
template <int index>
void delete_block(void* block) {
  if (block == nullptr) return;
  release(devices()[index % kMostDevices], upstreams[index / kMostDevices], block);
}

template <int... indices>
constexpr std::array<c10::DeleterFnPtr, sizeof...(indices)> make_deleters(
    std::integer_sequence<int, indices...>) {
  return {&delete_block<indices>...};
}
constexpr auto kDeleters =
    make_deleters(std::make_integer_sequence<int, kMostUpstreams * kMostDevices>{});

// Return the index of the upstream whose adapter made blocks with this deleter. Return -1 if this
// is not a deleter of pgmo.
int upstream_of(c10::DeleterFnPtr deleter) {
  for (size_t index = 0; index < kDeleters.size(); ++index) {
    if (kDeleters[index] == deleter) return static_cast<int>(index) / kMostDevices;
  }
  return -1;
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
