// Requests without a slot: blocks from pages, and what torch is told of them.
//
//     no slot ──▶ pages ──▶ a block of a window
//                   └─ no page to be had ──▶ torch's own cache is emptied, and once more
//                                                 └─▶ the allocator beneath, whose error says it
//
// Included by adapter.hpp alone.

#pragma once

#include <cstdlib>
#include <string>
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

// The same before the pages grow, once there is enough of it: DDP lets go of its first buckets, as
// large as the model, after an iteration. To empty a cache costs a synchronisation.
void trim_cache_beneath(Device& device, CUDAAllocator* upstream) {
  constexpr int64_t kWorth = int64_t{32} << 20;
  const int64_t unused = unused_beneath(device, upstream);
  if (unused < device.stays_beneath + kWorth) {
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

// The adapter is about to be taken away: the fraction is again that of the allocator beneath alone.
void unshare_fraction(Device& device, CUDAAllocator* upstream) {
  Fraction& fraction = device.fraction;
  const std::lock_guard guard(fraction.mutex);
  const double whole = fraction.whole.exchange(-1);
  if (whole >= 0 && fraction.beneath != whole) tell_beneath(device, upstream, whole);
}

// --- blocks of pages ----------------------------------------------------------------------------

// False: this device has no virtual memory, or torch is to use the driver's own pool.
bool open_pages(Device& device, CUDAAllocator* upstream) {
  const std::lock_guard guard(device.mutex);
  if (device.page_device != nullptr) return device.pages() != nullptr;
  device.baseline.begin(device.index, device.pools, upstream);
  if (pages_api == nullptr || upstream->name() == "cudaMallocAsync") return false;
  device.page_device = std::make_unique<PageDevice>(
      device.index, device.streams, device.pools,
      Room{.may_hold = [&device](uint64_t bytes) { return may_hold(device, upstreams[0], bytes); },
           .make = [&device] { return drop_cache_beneath(device, upstreams[0]); },
           .growing = [&device] { trim_cache_beneath(device, upstreams[0]); },
           .took = [&device](int64_t bytes) { device.baseline.took(bytes); }});
  const uint64_t page = device.page_device->prepare();
  if (page == 0) return false;
  const pgmo_pages_device table = device.page_device->table();
  const bool aliases = device.page_device->aliases_hold();
  device.card = bytes_of_card();
  device.space.store(pages_api->open(&table, page, aliases), std::memory_order_release);
  learn_fraction(device, upstream);
  limit_pages(device);
  return device.pages() != nullptr;
}

// nullptr: the allocator beneath is to be asked.
void* block_for(Device& device, size_t bytes, uint32_t stream) {
  pgmo_space* const space = device.pages();
  void* block = pages_api->allocate(space, bytes, stream);
  if (block == nullptr && !device.pools.any()) {
    settle(device);
    block = pages_api->allocate(space, bytes, stream);
  }
  if (block != nullptr) tell_of_birth(device, block, bytes, stream);
  return block;
}

// The adapter is about to be taken away: what lives in windows may be used on other streams without
// our being told.
void remember_windows(Device& device) {
  if (device.pages() == nullptr) return;
  std::vector<void*> living;
  pages_api->for_each(
      device.pages(),
      [](void* context, uintptr_t address, uint64_t, uint32_t) {
        static_cast<std::vector<void*>*>(context)->push_back(reinterpret_cast<void*>(address));
      },
      &living);
  const std::lock_guard guard(device.mutex);
  device.survivors.insert(living.begin(), living.end());
  device.has_survivors.store(!device.survivors.empty(), std::memory_order_release);
}

// Torch's own words, which programs match on; the allocator beneath cannot say them, as it does
// not know what the pages hold.
[[noreturn]] void throw_beyond_limit(Device& device, size_t bytes) {
  size_t available = 0, total = 0;
  const OnDevice on(device.index);
  if (cudaMemGetInfo(&available, &total) != cudaSuccess) (void)cudaGetLastError();
  const auto size = [](size_t value) { return binary_units(static_cast<double>(value)); };
  try {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", size(bytes),
                     ". GPU ", device.index, " has a total capacity of ", size(total), " of which ",
                     size(available),
                     " is free. The session may use no more: its limit is reached.");
  } catch (const c10::OutOfMemoryError& error) {
    throw_out_of_memory(device, error);
  }
}

// --- what torch is told -------------------------------------------------------------------------

using Stats = c10::CachingDeviceAllocator::DeviceStats;

// What torch counts from its start or from the last reset on.
struct Counts {
  int64_t bytes, freed_bytes, blocks, freed_blocks, creates, releases;
};

Counts counts(const pgmo_pages_statistics& now) {
  const auto ever = static_cast<int64_t>(now.allocated_bytes + now.live_slot_bytes);
  const auto blocks = static_cast<int64_t>(now.allocations);
  return {ever,
          ever - static_cast<int64_t>(now.live_bytes + now.live_slot_bytes),
          blocks,
          blocks - static_cast<int64_t>(now.live_blocks),
          static_cast<int64_t>(now.creates),
          static_cast<int64_t>(now.releases)};
}

void reset_accumulated(Device& device) {
  if (device.pages() == nullptr) return;
  pgmo_pages_statistics now;
  pages_api->statistics(device.pages(), &now);
  const Counts all = counts(now);
  Accumulated& before = device.before_reset;
  before.bytes = all.bytes;
  before.freed_bytes = all.freed_bytes;
  before.blocks = all.blocks;
  before.freed_blocks = all.freed_blocks;
  before.creates = all.creates;
  before.releases = all.releases;
}

// Adds what the pages have to what the allocator beneath says of itself.
void add_pages(const Device& device, Stats& stats) {
  if (device.pages() == nullptr) return;
  pgmo_pages_statistics now;
  pages_api->statistics(device.pages(), &now);
  const auto live = static_cast<int64_t>(now.live_bytes + now.live_slot_bytes);
  const Counts all = counts(now);
  const Accumulated& before = device.before_reset;
  // Slots are counted while they live, so that what was may be more than what is.
  const auto since = [](int64_t count, int64_t earlier) {
    return std::max<int64_t>(count - earlier, 0);
  };
  const auto add = [](auto& levels, int64_t current, int64_t peak, int64_t in, int64_t out) {
    auto& sum = levels[0];  // of small and large blocks together
    sum.peak = std::max(sum.peak, sum.current + peak);
    sum.current += current;
    sum.allocated += in;
    sum.freed += out;
  };
  for (auto* levels : {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes}) {
    add(*levels, live, static_cast<int64_t>(now.peak_live_bytes), since(all.bytes, before.bytes),
        since(all.freed_bytes, before.freed_bytes));
  }
  for (auto* levels : {&stats.allocation, &stats.active}) {
    const auto blocks = static_cast<int64_t>(now.live_blocks);
    add(*levels, blocks, blocks, since(all.blocks, before.blocks),
        since(all.freed_blocks, before.freed_blocks));
  }
  const int64_t created = since(all.creates, before.creates);
  const int64_t released = since(all.releases, before.releases);
  const auto page = static_cast<int64_t>(device.page_device->page());
  add(stats.reserved_bytes, static_cast<int64_t>(now.held_bytes),
      static_cast<int64_t>(now.peak_held_bytes), created * page, released * page);
  stats.num_device_alloc += created;
  stats.num_device_free += released;
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
