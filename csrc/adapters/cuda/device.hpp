// What the CUDA adapter keeps of a device, and how blocks on it are freed.
//
//     free ──▶ other streams use it? ──yes──▶ put off, see cuda/deferred.hpp
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
#include "adapters/cuda/pools.hpp"
#include "adapters/cuda/streams.hpp"
#include "adapters/torch_common.hpp"
#include "engine/pgmo_engine.h"
#include "pages/pgmo_pages.h"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

constexpr int kMostUpstreams = 4;
constexpr int kMostEngines = 32;

const pgmo_engine_api* api = nullptr;
const pgmo_pages_api* pages_api = nullptr;

// Of what the pages have done, what came before the last reset of torch's statistics.
struct Accumulated {
  std::atomic<int64_t> bytes{0}, freed_bytes{0};
  std::atomic<int64_t> blocks{0}, freed_blocks{0};
  std::atomic<int64_t> creates{0}, releases{0};
};

// Failures that the allocator beneath counts and the program never sees are negative, failures that
// it does not see are positive.
struct Failures {
  std::atomic<int64_t> ooms{0}, retries{0};
};

// The share of the card's memory that torch was told to keep to, which is one for the pages and
// what lies beneath.
struct Fraction {
  bool limits() const {
    const double now = whole.load();
    return now >= 0 && now < 1.0;
  }

  std::atomic<double> whole{-1};  // -1: not known
  std::mutex mutex;               // of what follows, and while either is set
  double beneath = -1;            // what the allocator beneath was told
};

// What is kept of one device. Never destroyed.
struct Device {
  int index = 0;
  std::atomic<pgmo_engine*> engine{nullptr};         // of the session whose turn it is
  std::atomic<const uint32_t*> mode{nullptr};        // null: not asked for, everything is passed on
  std::array<pgmo_engine*, kMostEngines> engines{};  // of all sessions; any may have living slots
  std::atomic<int> engine_count{0};
  StreamNumbers streams;
  ActivePools pools;
  DeferredFrees deferred;
  BaselineFeed baseline;
  std::mutex mutex;  // of what follows
  std::string advice;
  std::unordered_set<void*> raw_slots;  // handed out without a deleter of ours
  std::unordered_set<void*> survivors;  // see `survive`
  std::atomic<bool> has_survivors{false};
  std::atomic<bool> attended{false};  // a session is open: slots that wait are asked for

  // Of the pages, once they have been opened; see cuda/pages/windows.hpp.
  std::atomic<pgmo_space*> space{nullptr};
  std::atomic<bool> serves_pages{false};      // requests go there
  uint64_t card = 0;                          // bytes; 0: not known
  std::atomic<uint64_t> limit{~uint64_t{0}};  // bytes that a session may have in pages
  Fraction fraction;
  std::atomic<bool> trim_due{false};  // of the cache beneath, once no lock is held
  SplitBlocks splits;
  std::atomic<int64_t> stays_beneath{0};  // unused bytes that emptying the cache leaves
  Accumulated before_reset;
  Failures failures;
  std::atomic<const uint32_t*> unconfirmed{nullptr};  // not 0: a peak waits for `confirm_peak`
  std::unique_ptr<PageDevice> page_device;

  bool active() const {
    const uint32_t* word = mode.load(std::memory_order_acquire);
    return word != nullptr && __atomic_load_n(word, __ATOMIC_RELAXED) != 0;
  }
  bool connected() const { return mode.load(std::memory_order_acquire) != nullptr; }
  // Calls `visit` with each engine, until one says true.
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

// The process has begun to use CUDA: a child that is forked from now on cannot.
std::atomic<bool> cuda_used{false};

// This is the child of a fork, which has no device: the driver belongs to the parent.
std::atomic<bool> forked{false};

// nullptr: pgmo does not know so many devices.
BaselineFeed* feed_of(int device) {
  const bool known = device >= 0 && device < kMostDevices;
  return known ? &devices()[static_cast<size_t>(device)].baseline : nullptr;
}

// Counts the times that the adapter was taken away: what lived then may have been used on other
// streams without our being told.
std::atomic<uint64_t> absences{0};

// Waits for all that the device was told to do, unless that would break a capture.
void synchronize(const Device& device) {
  if (device.pools.any() || forked.load()) return;
  try {
    const OnDevice on(device.index);
    const BesideCaptures beside;  // of other devices
    if (cudaDeviceSynchronize() != cudaSuccess) (void)cudaGetLastError();
  } catch (const std::exception&) {
    // CUDA is going down: nothing runs there any more.
  }
}

// --- freeing ------------------------------------------------------------------------------------

std::array<CUDAAllocator*, kMostUpstreams> upstreams{};

void report(const Device& device, void* block, int64_t bytes, int64_t gone = 0) {
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

void tell_of_birth(Device& device, void* block, size_t bytes, uint32_t stream) {
  device.baseline.allocated(block, bytes, device.streams.handle(stream));
  if (history().enabled()) [[unlikely]]
    history().begins(device.index, block, bytes, device.streams.handle(stream));
  if (c10::memoryProfilingEnabled()) [[unlikely]]
    report(device, block, static_cast<int64_t>(bytes));
}

// Of a slot or a block of a window; 0: it is neither.
uint64_t bytes_of(const Device& device, const void* block) {
  uint64_t bytes = 0;
  device.any_engine(
      [&](pgmo_engine* engine) { return (bytes = api->size_of(engine, block)) != 0; });
  if (bytes == 0 && device.pages() != nullptr) bytes = pages_api->size_of(device.pages(), block);
  return bytes;
}

// It is freed; other streams may use it still.
void tell_of_free(const Device& device, void* block) {
  if (!history().enabled()) [[likely]]
    return;
  if (const uint64_t bytes = bytes_of(device, block)) {
    history().is_freed(device.index, block, bytes, nullptr);
  }
}

// Before it is released: afterwards another thread may have it, and report that first.
void tell_of_end(const Device& device, void* block) {
  const bool profiled = c10::memoryProfilingEnabled();
  const bool noted = history().enabled();
  if (!profiled && !noted) [[likely]]
    return;
  const auto bytes = static_cast<int64_t>(bytes_of(device, block));
  if (bytes == 0) return;
  if (profiled) report(device, block, -bytes, bytes);
  if (noted) history().ends(device.index, block, static_cast<size_t>(bytes), nullptr);
}

// True: it was a slot. False: each engine knows that it is gone, if it had been told of it.
bool release_slot(const Device& device, void* block) {
  return device.any_engine(
      [&](pgmo_engine* engine) { return api->release(engine, block) == PGMO_SLOT; });
}

// True: it was a slot, or a block of a window, and is free now. False: it is of the allocator
// beneath.
bool release_own(const Device& device, void* block) {
  if (release_slot(device, block)) return true;
  return device.pages() != nullptr && pages_api->deallocate(device.pages(), block) != 0;
}

void release_all(const Device& device, const std::vector<void*>& blocks) {
  for (void* block : blocks) {
    tell_of_end(device, block);
    (void)release_own(device, block);
  }
}

// A few of those that are done, or all of them.
void finish_deferred(Device& device) {
  release_all(device, device.deferred.finished());
}
void finish_all_deferred(Device& device) {
  release_all(device, device.deferred.finished(~size_t{0}));
}

// Leaves no slot waiting, as far as that is possible: nobody asks for them from now on.
void settle(Device& device) {
  finish_all_deferred(device);
  if (!device.deferred.any_waiting() || device.pools.any()) return;
  device.deferred.wait();
  finish_all_deferred(device);
}

void leave(Device& device) {
  device.attended.store(false);
  if (device.connected() || device.pages() != nullptr) settle(device);
}

// Blocks that lived while the adapter was away: torch keeps silent about other streams that use a
// block whose deleter it does not know.
void mind_absence(Device& device, void* block) {
  if (!device.has_survivors.load(std::memory_order_acquire)) [[likely]]
    return;
  {
    const std::lock_guard guard(device.mutex);
    if (device.survivors.erase(block) == 0) return;
    device.has_survivors.store(!device.survivors.empty(), std::memory_order_release);
  }
  synchronize(device);
}

void release(Device& device, CUDAAllocator* upstream, void* block) {
  tell_of_free(device, block);
  device.baseline.freed(block);
  if (device.deferred.defer(block)) {
    try {
      if (!device.attended.load(std::memory_order_relaxed)) settle(device);
    } catch (const std::bad_alloc&) {
      // It waits for the next session, then.
    }
    return;
  }
  tell_of_end(device, block);
  mind_absence(device, block);
  if (release_own(device, block)) return;
  upstream->raw_delete(block);
  if (device.splits.any()) [[unlikely]]
    device.splits.freed(block);
}

// A deleter is a plain function and cannot carry what its block came from, so there is one for each
// allocator beneath and each device.
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

// Which allocator was beneath when a block with this deleter was made; -1: it is not ours.
int upstream_of(c10::DeleterFnPtr deleter) {
  for (size_t index = 0; index < kDeleters.size(); ++index) {
    if (kDeleters[index] == deleter) return static_cast<int>(index) / kMostDevices;
  }
  return -1;
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
