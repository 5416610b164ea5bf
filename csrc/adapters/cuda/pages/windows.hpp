// Requests without a slot: blocks from pages, and what torch is told of them.
//
//     no slot ──▶ pages ──▶ a block of a window
//                   └─ no page to be had ──▶ torch's own cache is emptied, and once more
//                                                 └─▶ the allocator beneath, whose error says it
//
// Included by adapter.hpp alone.

#pragma once

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "adapters/cuda/device.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// Devices are given pages when they are first asked, as under torch's own call, where no session
// says which.
std::atomic<bool> pages_everywhere{false};

// False: each block is to come from the driver, and nothing is served here.
bool wants_caching() {
  return std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") == nullptr;
}
std::atomic<bool> caching{wants_caching()};

// As torch.cuda.caching_allocator_enable says, and has said to the allocator beneath.
void heed_caching(bool enabled) {
  caching.store(enabled && wants_caching());
}
void heed_caching_of(CUDAAllocator* upstream) {
  bool enabled = true;
  try {
    enabled = upstream->isEnabled();
  } catch (const std::exception&) {
    // An allocator that cannot be asked.
  }
  heed_caching(enabled);
}

template <typename Allocator>
void empty_cache(Allocator* allocator) {
  try {
    allocator->emptyCache();
  } catch (const std::exception&) {
    // While a graph is captured what is cached has to stay.
  }
}

int64_t unused_beneath(const Device& device, CUDAAllocator* upstream) {
  const auto stats = upstream->getDeviceStats(static_cast<c10::DeviceIndex>(device.index));
  return stats.reserved_bytes[0].current - stats.allocated_bytes[0].current;
}

// What the allocator beneath holds and nobody uses goes back before the card is asked for more.
// True: there was something.
bool drop_cache_beneath(Device& device, CUDAAllocator* upstream) {
  if (device.pools.any()) return false;
  const int64_t before = unused_beneath(device, upstream);
  if (before <= 0) return false;
  empty_cache(upstream);
  return unused_beneath(device, upstream) < before;
}

// Torch's allocator gathers a stack, for which Python is waited for, when its cache is emptied
// while it records its history. Whoever holds the lock of the pages must not wait for Python, which
// may be waiting for that lock.
bool gathers_stacks(CUDAAllocator* upstream) {
  try {
    return upstream->isHistoryEnabled();
  } catch (const std::exception&) {
    return false;  // an allocator that has no history
  }
}

// The same before the pages grow, once there is enough of it: DDP lets go of its first buckets, as
// large as the model, after an iteration. To empty a cache costs a synchronisation, and gives no
// segment of large blocks back where less than one is unused.
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

uint64_t held_beneath(const Device& device, CUDAAllocator* upstream) {
  const auto stats = upstream->getDeviceStats(static_cast<c10::DeviceIndex>(device.index));
  return static_cast<uint64_t>(stats.reserved_bytes[0].current);
}

uint64_t held_in_pages(const Device& device) {
  pgmo_pages_statistics now;
  pages_api->statistics(device.pages(), &now);
  return now.held_bytes;
}

// Bytes that the fraction allows the pages and what lies beneath together.
uint64_t allowed(const Device& device) {
  if (!device.fraction.limits() || device.card == 0) return ~uint64_t{0};
  return static_cast<uint64_t>(device.fraction.whole.load() * static_cast<double>(device.card));
}

bool may_hold(const Device& device, CUDAAllocator* upstream, uint64_t more) {
  const uint64_t most = allowed(device);
  if (most == ~uint64_t{0}) return true;
  return held_in_pages(device) + held_beneath(device, upstream) + more <= most;
}

// No more pages than the fraction and a session allow.
void limit_pages(const Device& device) {
  if (device.pages() == nullptr) return;
  pages_api->limit(device.pages(), std::min(allowed(device), device.limit.load()));
}

// The fraction that torch was told before the adapter was there.
void learn_fraction(Device& device, CUDAAllocator* upstream) {
  Fraction& fraction = device.fraction;
  const std::lock_guard guard(fraction.mutex);
  if (fraction.whole.load() >= 0) return;
  fraction.beneath = upstream->getMemoryFraction(static_cast<c10::DeviceIndex>(device.index));
  fraction.whole.store(fraction.beneath);
}

// As torch is told now. Throws where it is no fraction, and nothing has changed.
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

// Torch's own allocator makes the device the current one.
void tell_beneath(Device& device, CUDAAllocator* upstream, double rest) {
  const OnDevice on(device.index);
  upstream->setMemoryFraction(rest, static_cast<c10::DeviceIndex>(device.index));
  device.fraction.beneath = rest;
}

// Leaves to the allocator beneath what the pages do not hold of the fraction. It says so itself,
// then, when there is no more; and it may still find something, in a pool that others may use.
// True: it may have more than before.
bool share_fraction(Device& device, CUDAAllocator* upstream) {
  Fraction& fraction = device.fraction;
  if (device.pages() == nullptr || device.card == 0 || !fraction.limits()) return false;
  const std::lock_guard guard(fraction.mutex);
  if (!fraction.limits()) return false;
  const double before = fraction.beneath;
  const auto held = static_cast<double>(held_in_pages(device));
  const double rest =
      std::max(fraction.whole.load() - held / static_cast<double>(device.card), 0.0);
  if (rest != before) tell_beneath(device, upstream, rest);
  return rest > before;
}

// --- blocks of pages ----------------------------------------------------------------------------

// What the pages ask for while their lock is held. Where stacks are gathered it is done later.
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

// False: this device has no virtual memory or refuses to use it, torch is to use the driver's own
// pool, or this is a forked child.
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
  const bool aliases = trial == PageDevice::Trial::kAliases;
  device.card = bytes_of_card();
  pgmo_space* const space = pages_api->open(&table, page, aliases);
  if (space == nullptr) return false;
  (void)pages_api->beneath_grew(space);  // by then
  device.unconfirmed.store(pages_api->unconfirmed(space), std::memory_order_release);
  device.space.store(space, std::memory_order_release);
  learn_fraction(device, upstream);
  limit_pages(device);
  return true;
}

// Whether the adapter stays at the end of the last session: torch's statistics go on counting pages
// and failures.
bool stays() {
  const auto counts = [](const Device& device) {
    return device.pages() != nullptr || device.failures.ooms != 0 || device.failures.retries != 0;
  };
  return pages_everywhere.load() || std::any_of(devices().begin(), devices().end(), counts);
}

// nullptr: the allocator beneath is to be asked.
void* block_for(Device& device, size_t bytes, uint32_t stream) {
  pgmo_space* const space = device.pages();
  if (device.trim_due.load(std::memory_order_relaxed)) [[unlikely]]
    trim_cache_beneath(device, upstreams[0]);
  void* block = pages_api->allocate(space, bytes, stream);
  if (block == nullptr && !device.pools.any()) {
    settle(device);
    if (gathers_stacks(upstreams[0])) (void)drop_cache_beneath(device, upstreams[0]);
    block = pages_api->allocate(space, bytes, stream);
  }
  if (block != nullptr) tell_of_birth(device, block, bytes, stream);
  return block;
}

// --- what torch is told -------------------------------------------------------------------------

using Stats = c10::CachingDeviceAllocator::DeviceStats;

pgmo_usage usage_of(const Stats& stats) {
  const auto now = [](const auto& levels) { return static_cast<uint64_t>(levels[0].current); };
  return {now(stats.allocated_bytes), now(stats.allocation), now(stats.reserved_bytes)};
}

// Has the pages count what the allocator beneath has into peaks.
void confirm_peak(const Device& device, CUDAAllocator* upstream) {
  const auto index = static_cast<c10::DeviceIndex>(device.index);
  const pgmo_usage beneath = usage_of(upstream->getDeviceStats(index));
  pages_api->tell_beneath(device.pages(), &beneath);
}

// The allocator beneath has served a request.
void note_beneath(const Device& device, CUDAAllocator* upstream) {
  pgmo_space* const space = device.pages();
  if (space != nullptr && pages_api->beneath_grew(space)) confirm_peak(device, upstream);
}

void reset_peaks(const Device& device, CUDAAllocator* upstream) {
  if (device.pages() == nullptr) return;
  confirm_peak(device, upstream);
  pages_api->reset_peaks(device.pages());
}

// What torch counts from its start or from the last reset on.
struct Counts {
  int64_t bytes, freed_bytes, blocks, freed_blocks, creates, releases;
};

Counts counts(const Device& device, const pgmo_pages_statistics& now) {
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
  const Counts all = counts(device, now);
  Accumulated& before = device.before_reset;
  before.bytes = all.bytes;
  before.freed_bytes = all.freed_bytes;
  before.blocks = all.blocks;
  before.freed_blocks = all.freed_blocks;
  before.creates = all.creates;
  before.releases = all.releases;
}

// Adds what the pages have to what the allocator beneath says of itself. Its small and large pool,
// its segments and their unused parts are its own.
void add_pages(const Device& device, Stats& stats) {
  stats.num_ooms += device.failures.ooms;
  stats.num_alloc_retries += device.failures.retries;
  if (device.pages() == nullptr) return;
  const pgmo_usage beneath = usage_of(stats);
  pages_api->tell_beneath(device.pages(), &beneath);
  pgmo_pages_statistics now;
  pages_api->statistics(device.pages(), &now);
  const Counts all = counts(device, now);
  const Accumulated& before = device.before_reset;
  const auto add = [](auto& levels, uint64_t current, uint64_t peak, int64_t in, int64_t out) {
    auto& sum = levels[0];  // of small and large blocks together
    sum.current += static_cast<int64_t>(current);
    sum.peak = std::max({sum.peak, sum.current, static_cast<int64_t>(peak)});
    sum.allocated += in;
    sum.freed += out;
  };
  for (auto* levels : {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes}) {
    add(*levels, now.now.bytes, now.peak.bytes, all.bytes - before.bytes,
        all.freed_bytes - before.freed_bytes);
  }
  for (auto* levels : {&stats.allocation, &stats.active}) {
    add(*levels, now.now.blocks, now.peak.blocks, all.blocks - before.blocks,
        all.freed_blocks - before.freed_blocks);
  }
  const int64_t created = all.creates - before.creates;
  const int64_t released = all.releases - before.releases;
  const auto page = static_cast<int64_t>(device.page_device->page());
  add(stats.reserved_bytes, now.now.pages, now.peak.pages, created * page, released * page);
  stats.num_device_alloc += created;
  stats.num_device_free += released;
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
