// Requests without a slot: blocks of windows over pages, and their part in torch's statistics.
//
//     no slot ──▶ pages ──▶ a block of a window
//                   └─ no page is available ──▶ empty torch's own cache, and retry
//                                                 └─▶ the allocator beneath, which raises the error
//
// This file is part of the translation unit torch_cuda.cpp.

#pragma once

#include <algorithm>
#include <cstdlib>

#include "adapters/cuda/device.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// Whether to open pages on each device at its first request, even without a session.
std::atomic<bool> pages_everywhere{false};

// Return whether torch may cache blocks. If not, pgmo serves no block.
bool wants_caching() {
  return std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") == nullptr;
}
std::atomic<bool> caching{wants_caching()};

// Follow torch.cuda.caching_allocator_enable, which applies to the allocator beneath and to pgmo.
void set_caching(bool enabled) {
  caching.store(enabled && wants_caching());
}
void follow_caching_of(CUDAAllocator* upstream) {
  bool enabled = true;
  try {
    enabled = upstream->isEnabled();
  } catch (const std::exception&) {
    // Some allocators do not support this query.
  }
  set_caching(enabled);
}

template <typename Allocator>
void empty_cache(Allocator* allocator) {
  try {
    allocator->emptyCache();
  } catch (const std::exception&) {
    // Emptying fails during a graph capture, when cached blocks must stay in place.
  }
}

// Return the bytes that the allocator beneath has reserved and not allocated.
int64_t unused_beneath(const Device& device, CUDAAllocator* upstream) {
  const auto stats = upstream->getDeviceStats(static_cast<c10::DeviceIndex>(device.index));
  return stats.reserved_bytes[0].current - stats.allocated_bytes[0].current;
}

// Release unused memory of the allocator beneath to the card. Return whether any was released. Does
// nothing during a capture.
bool drop_cache_beneath(Device& device, CUDAAllocator* upstream) {
  if (device.pools.any()) return false;
  const int64_t before = unused_beneath(device, upstream);
  if (before <= 0) return false;
  empty_cache(upstream);
  return unused_beneath(device, upstream) < before;
}

// Return whether emptying torch's cache gathers a stack trace, as it does while torch records its
// memory history. Gathering waits for the GIL. So a thread with the pages' lock must not empty the
// cache: the thread with the GIL may wait for that lock.
bool gathers_stacks(CUDAAllocator* upstream) {
  try {
    return upstream->isHistoryEnabled();
  } catch (const std::exception&) {
    return false;  // an allocator without history
  }
}

// Empty the cache of the allocator beneath before the pages grow. Do nothing if its unused memory
// has grown by less than `kLargeSegment` since its last minimum. For example, DDP frees its first
// buckets, as large as the model, after an iteration. Emptying costs a synchronization, and
// releases no segment of large blocks if the unused memory is smaller than a segment.
void trim_cache_beneath(Device& device, CUDAAllocator* upstream) {
  device.trim_due.store(false, std::memory_order_relaxed);
  constexpr int64_t kLargeSegment = int64_t{20} << 20;  // kLargeBuffer of PyTorch
  const int64_t unused = unused_beneath(device, upstream);
  if (unused < device.stays_beneath + kLargeSegment) {
    device.stays_beneath = std::min(device.stays_beneath.load(), unused);
    return;
  }
  (void)drop_cache_beneath(device, upstream);
  device.stays_beneath = unused_beneath(device, upstream);
}

uint64_t bytes_of_card() {
  size_t available = 0, total = 0;
  if (cudaMemGetInfo(&available, &total) == cudaSuccess) return total;
  (void)cudaGetLastError();
  return 0;
}

// --- the memory fraction ------------------------------------------------------------------------

// Return the bytes of the card that the allocator beneath has.
uint64_t held_beneath(const Device& device, CUDAAllocator* upstream) {
  const auto stats = upstream->getDeviceStats(static_cast<c10::DeviceIndex>(device.index));
  return static_cast<uint64_t>(
      std::max<int64_t>(stats.reserved_bytes[0].current - device.saved(), 0));
}

uint64_t held_in_pages(const Device& device) {
  pgmo_pages_statistics now;
  pages_api->statistics(device.pages(), &now);
  return now.held_bytes;
}

// Return the bytes that the fraction allows pages and the allocator beneath; all ones: no limit.
uint64_t allowed(const Device& device) {
  if (!device.fraction.limits() || device.card == 0) return ~uint64_t{0};
  return static_cast<uint64_t>(device.fraction.whole.load() * static_cast<double>(device.card));
}

// Return whether the memory fraction allows this many more bytes.
bool may_hold(const Device& device, CUDAAllocator* upstream, uint64_t more) {
  const uint64_t most = allowed(device);
  if (most == ~uint64_t{0}) return true;
  return held_in_pages(device) + held_beneath(device, upstream) + more <= most;
}

// Limit the pages to the bytes that both the fraction and the session allow.
void limit_pages(const Device& device) {
  if (device.pages() == nullptr) return;
  pages_api->limit(device.pages(), std::min(allowed(device), device.limit.load()));
}

// Read the fraction that the allocator beneath has, unless it was read or set before.
void read_fraction(Device& device, CUDAAllocator* upstream) {
  Fraction& fraction = device.fraction;
  const std::lock_guard guard(fraction.mutex);
  if (fraction.whole.load() >= 0) return;
  fraction.beneath = upstream->getMemoryFraction(static_cast<c10::DeviceIndex>(device.index));
  fraction.whole.store(fraction.beneath);
}

// Set the fraction for pages and the allocator beneath together. Throws if `whole` is invalid.
void set_fraction(Device& device, CUDAAllocator* upstream, double whole) {
  Fraction& fraction = device.fraction;
  {
    const std::lock_guard guard(fraction.mutex);
    upstream->setMemoryFraction(whole, static_cast<c10::DeviceIndex>(device.index));
    fraction.beneath = whole;
    fraction.whole.store(whole);
  }
  device.baseline.set_fraction(whole);
  limit_pages(device);
}

// Set the fraction of the allocator beneath. setMemoryFraction makes the device current, so restore
// the previous device. Requires the fraction's mutex.
void limit_beneath(Device& device, CUDAAllocator* upstream, double rest) {
  const OnDevice on(device.index);
  upstream->setMemoryFraction(rest, static_cast<c10::DeviceIndex>(device.index));
  device.fraction.beneath = rest;
}

// Leave to the allocator beneath the part of the fraction that pages do not use. That allocator
// raises the out-of-memory error when its part is used up. Return whether its part has grown.
bool share_fraction(Device& device, CUDAAllocator* upstream) {
  Fraction& fraction = device.fraction;
  if (device.pages() == nullptr || device.card == 0 || !fraction.limits()) return false;
  const std::lock_guard guard(fraction.mutex);
  if (!fraction.limits()) return false;
  const double before = fraction.beneath;
  const auto held = static_cast<double>(held_in_pages(device));
  const double rest =
      std::max(fraction.whole.load() - held / static_cast<double>(device.card), 0.0);
  if (rest != before) limit_beneath(device, upstream, rest);
  return rest > before;
}

// Lend idle pages of graphs to the card, and return their bytes. Defined in graphs/serving.hpp.
uint64_t lend_pages_of_graphs(const Device& device);

// --- blocks of pages ----------------------------------------------------------------------------

// Return the callbacks for a device's pages, which call them under the pages' lock. If emptying the
// cache gathers stacks, the callbacks do not empty the cache, but `block_for` does.
Room room_of(Device& device) {
  return {.may_hold = [&device](uint64_t bytes) { return may_hold(device, upstreams[0], bytes); },
          .make =
              [&device] {
                return !gathers_stacks(upstreams[0]) && drop_cache_beneath(device, upstreams[0]);
              },
          .growing =
              [&device] {
                if (gathers_stacks(upstreams[0])) {
                  device.trim_due.store(true, std::memory_order_relaxed);
                } else {
                  trim_cache_beneath(device, upstreams[0]);
                }
              },
          .took = [&device](int64_t bytes) { device.baseline.took(bytes); }};
}

// Open the pages of a device, and return whether the device has pages now. Pages need virtual
// memory, and a driver that maps pages. A device has no pages with cudaMallocAsync, in a forked
// child, or if the host is out of memory.
bool open_pages(Device& device, CUDAAllocator* upstream) {
  const std::lock_guard guard(device.mutex);
  if (device.page_device != nullptr) return device.pages() != nullptr;
  if (forked.load()) return false;
  cuda_used.store(true);
  device.baseline.begin(device.index, device.pools, upstream);
  if (pages_api == nullptr || upstream->name() == "cudaMallocAsync") return false;
  device.page_device =
      std::make_unique<PageDevice>(device.index, device.streams, device.pools, room_of(device));
  const uint64_t page = device.page_device->prepare();
  if (page == 0) return false;
  const pgmo_pages_device table = device.page_device->table();
  const PageDevice::Trial trial = device.page_device->try_pages();
  if (trial == PageDevice::Trial::kRefused) return false;
  device.aliases = trial == PageDevice::Trial::kAliases;
  device.card = bytes_of_card();
  pgmo_space* const space = pages_api->open(&table, page, device.aliases);
  if (space == nullptr) return false;
  (void)pages_api->beneath_grew(space);  // peaks include the usage of the allocator beneath so far
  device.unconfirmed.store(pages_api->unconfirmed(space), std::memory_order_release);
  device.space.store(space, std::memory_order_release);
  read_fraction(device, upstream);
  limit_pages(device);
  return true;
}

// Return whether the adapter must stay installed after the last session. It must if torch's
// statistics count pages or corrected failures, or if pages serve without a session.
bool stays() {
  const auto counts = [](const Device& device) {
    return device.pages() != nullptr || device.failures.ooms != 0 || device.failures.retries != 0;
  };
  return pages_everywhere.load() || std::any_of(devices().begin(), devices().end(), counts);
}

// Open the device's pages, and let them serve requests without a session.
void begin_pages(Device& device) {
  if (open_pages(device, upstreams[0])) device.serves_pages.store(true, std::memory_order_release);
}

// Return a block of a window; nullptr if no page is available. Outside of captures, first finish
// delayed frees, and give back torch's cache and idle pages of graphs. `pool`: number of the
// block's torch.cuda.MemPool; 0: none. Requires that no lock is held.
void* block_for(Device& device, size_t bytes, uint32_t stream, uint64_t pool) {
  pgmo_space* const space = device.pages();
  if (device.trim_due.load(std::memory_order_relaxed)) [[unlikely]]
    trim_cache_beneath(device, upstreams[0]);
  void* block = pages_api->allocate(space, bytes, stream, pool);
  if (block == nullptr && !device.pools.any()) {
    settle(device);
    if (gathers_stacks(upstreams[0])) (void)drop_cache_beneath(device, upstreams[0]);
    block = pages_api->allocate(space, bytes, stream, pool);
    const bool limited = device.limit.load(std::memory_order_relaxed) != ~uint64_t{0};
    if (block == nullptr && !limited && lend_pages_of_graphs(device) != 0) {
      block = pages_api->allocate(space, bytes, stream, pool);
    }
  }
  if (block != nullptr) report_allocation(device, block, bytes, stream, pool);
  return block;
}

// --- torch's statistics -------------------------------------------------------------------------

using Stats = c10::CachingDeviceAllocator::DeviceStats;

// Return torch's statistics with each page that several segments of graphs share counted once.
// Torch's own peak counts such a page once per segment. So once the device has graphs with shared
// pages, the peak comes from the pages' meter.
Stats without_sharing(const Device& device, Stats stats) {
  if (device.saved_in_graphs.load() == nullptr) return stats;
  auto& reserved = stats.reserved_bytes[0];
  reserved.current = std::max<int64_t>(reserved.current - device.saved(), 0);
  reserved.peak = std::max(device.peak_before_graphs.load(), reserved.current);
  return stats;
}

// Return the current bytes and blocks in torch's statistics.
pgmo_usage usage_of(const Stats& stats) {
  const auto now = [](const auto& levels) { return static_cast<uint64_t>(levels[0].current); };
  return {now(stats.allocated_bytes), now(stats.allocation), now(stats.reserved_bytes)};
}

// Report the current usage of the allocator beneath to the pages, whose peaks include it.
void confirm_peak(const Device& device, CUDAAllocator* upstream) {
  const auto index = static_cast<c10::DeviceIndex>(device.index);
  const Stats stats = without_sharing(device, upstream->getDeviceStats(index));
  const pgmo_usage beneath = usage_of(stats);
  pages_api->set_beneath(device.pages(), &beneath);
}

// Record that the allocator beneath has served a request: its peak may have grown.
void note_beneath(const Device& device, CUDAAllocator* upstream) {
  pgmo_space* const space = device.pages();
  if (space != nullptr && pages_api->beneath_grew(space)) confirm_peak(device, upstream);
}

void reset_peaks(Device& device, CUDAAllocator* upstream) {
  device.peak_before_graphs.store(0);
  if (device.pages() == nullptr) return;
  confirm_peak(device, upstream);
  pages_api->reset_peaks(device.pages());
}

// Return the totals since the start.
std::array<int64_t, kTotals> totals(const Device& device, const pgmo_pages_statistics& now) {
  uint64_t bytes = now.allocated_bytes, blocks = now.allocations;
  device.any_engine([&](pgmo_engine* engine) {
    pgmo_engine_statistics one;
    api->statistics(engine, &one);
    bytes += one.paged_slot_bytes;
    blocks += one.paged_slots;
    return false;
  });
  return {static_cast<int64_t>(bytes),       static_cast<int64_t>(bytes - now.living_bytes),
          static_cast<int64_t>(blocks),      static_cast<int64_t>(blocks - now.now.blocks),
          static_cast<int64_t>(now.creates), static_cast<int64_t>(now.releases)};
}

void reset_accumulated(Device& device) {
  device.failures.ooms = 0;
  device.failures.retries = 0;
  if (device.pages() == nullptr) return;
  pgmo_pages_statistics now;
  pages_api->statistics(device.pages(), &now);
  const std::array<int64_t, kTotals> all = totals(device, now);
  std::copy(all.begin(), all.end(), device.before_reset.begin());
}

// Add slots, blocks of windows and pages to torch's statistics. Figures of the small pool, the
// large pool, segments and their unused parts contain only the allocator beneath.
void add_pages(const Device& device, Stats& stats) {
  stats.num_ooms += device.failures.ooms;
  stats.num_alloc_retries += device.failures.retries;
  if (device.pages() == nullptr) return;
  stats = without_sharing(device, stats);
  const pgmo_usage beneath = usage_of(stats);
  pages_api->set_beneath(device.pages(), &beneath);
  pgmo_pages_statistics now;
  pages_api->statistics(device.pages(), &now);
  std::array<int64_t, kTotals> since = totals(device, now);
  for (int at = 0; at < kTotals; ++at) since[at] -= device.before_reset[at];
  const auto add = [](auto& levels, uint64_t current, uint64_t peak, int64_t in, int64_t out) {
    auto& sum = levels[0];  // sum of small and large blocks
    sum.current += static_cast<int64_t>(current);
    sum.peak = std::max({sum.peak, sum.current, static_cast<int64_t>(peak)});
    sum.allocated += in;
    sum.freed += out;
  };
  for (auto* levels : {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes}) {
    add(*levels, now.now.bytes, now.peak.bytes, since[kBytes], since[kFreedBytes]);
  }
  for (auto* levels : {&stats.allocation, &stats.active}) {
    add(*levels, now.now.blocks, now.peak.blocks, since[kBlocks], since[kFreedBlocks]);
  }
  const auto page = static_cast<int64_t>(device.page_device->page());
  add(stats.reserved_bytes, now.now.pages, now.peak.pages, since[kCreates] * page,
      since[kReleases] * page);
  stats.num_device_alloc += since[kCreates];
  stats.num_device_free += since[kReleases];
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
