// torch.cuda.MemPool without an allocator of its own: its blocks lie in windows of the pool.
//
//     MemPool()       ──▶ createOrIncrefPool    the pool is served from now on
//     use_mem_pool    ──▶ beginAllocateToPool   requests of the thread ──▶ windows of the pool
//                                                  no page, or a capture ──▶ the allocator beneath,
//                                                                            in its pool of that id
//     the last user   ──▶ releasePool           idle pages go back to the card
//
// Pages change hands as between other windows: idle pages of a live pool serve others, and a pool
// gets pages that are idle elsewhere. The allocator beneath has each such pool, too, and counts its
// users.
//
// PyTorch serves a pool with `no_split`, and one that is registered with NCCL: these need segments
// of the driver.
//
// Only adapter.hpp includes this file.

#pragma once

#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "adapters/cuda/graphs/serving.hpp"
#include "adapters/cuda/out_of_memory.hpp"
#include "adapters/cuda/pages/windows.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

using PoolId = c10::cuda::MempoolId_t;

constexpr const char* kAlreadyActive = "beginAllocateToPool: already recording to mempool_id";

// Return whether pools are served; PGMO_POOLS=0 forbids it.
bool serves_pools() {
  static const bool wanted = [] {
    const char* const value = std::getenv("PGMO_POOLS");
    return value == nullptr || std::string_view(value) != "0";
  }();
  return wanted;
}

Device* device_or_null(int index) {
  return index < 0 || index >= kMostDevices ? nullptr : &devices()[static_cast<size_t>(index)];
}

// Serve a pool that was created now. A pool whose blocks are torch's, or which has an allocator of
// its own, is left alone. Torch numbers pools of users from 1, after a zero.
template <typename Allocator>
void note_pool(CUDAAllocator* upstream, int index, PoolId pool, const Allocator& own) {
  Device* const device = device_or_null(index);
  if (device == nullptr || own != nullptr || pool.first != 0 || pool.second == 0) return;
  if (!serves_pools() || !caching.load() || device->pools.serves(pool)) return;
  if (pages_everywhere.load() && !device->paged()) begin_pages(*device);
  if (!device->paged()) return;
  if (users_of(upstream, static_cast<c10::DeviceIndex>(index), pool) != 1) return;
  device->pools.serve(pool);
}

// Leave further requests of a pool to torch's allocator.
template <typename... Options>
void leave_pool(int index, PoolId pool, const Options&...) {
  Device* const device = device_or_null(index);
  if (device == nullptr || !device->pools.stop_serving(pool)) return;
  pages_api->close_pool(device->pages(), pool.second);
}

// Return the idle pages of a pool to the card.
void empty_pool(Device& device, PoolId pool) {
  if (device.pools.any()) return;
  const uint64_t idle = pages_api->idle_in(device.pages(), pool.second);
  if (idle == 0) return;
  synchronize(device);
  (void)pages_api->give_back(device.pages(), idle);
}

// Note that a user of the pool has released it.
void note_release(CUDAAllocator* upstream, c10::DeviceIndex index, PoolId pool) {
  note_graph_release(upstream, index, pool);
  Device* const device = device_or_null(index);
  if (device == nullptr || !device->pools.serves(pool)) return;
  if (users_of(upstream, index, pool).value_or(0) != 0) return;
  empty_pool(*device, pool);
  leave_pool(index, pool);
}

// Count a user of the pool.
template <typename Allocator>
void add_user(Allocator* upstream, c10::DeviceIndex index, PoolId pool) {
  if constexpr (requires { upstream->createOrIncrefPool(index, pool, nullptr); }) {
    upstream->createOrIncrefPool(index, pool, nullptr);
  }
}

// Makes a pool active in the allocator beneath, for requests of this thread.
class WithinPool {
 public:
  WithinPool(CUDAAllocator* upstream, int index, PoolId pool)
      : upstream_(upstream), index_(static_cast<c10::DeviceIndex>(index)), pool_(std::move(pool)) {
    try {
      const auto thread = std::this_thread::get_id();
      upstream_->beginAllocateToPool(
          index_, pool_, [thread](cudaStream_t) { return std::this_thread::get_id() == thread; });
      begun_ = true;
    } catch (const c10::Error&) {
      // Another thread asks within this pool. The block does not lie in the pool then.
    }
  }
  ~WithinPool() {
    if (!begun_) return;
    try {
      upstream_->endAllocateToPool(index_, pool_);
      upstream_->releasePool(index_, pool_);
    } catch (const c10::Error&) {
      // CUDA is shutting down.
    }
  }
  WithinPool(const WithinPool&) = delete;
  WithinPool& operator=(const WithinPool&) = delete;

 private:
  CUDAAllocator* const upstream_;
  const c10::DeviceIndex index_;
  const PoolId pool_;
  bool begun_ = false;
};

// Ask the allocator beneath for a block of an active pool.
template <typename Ask>
auto ask_within(Device& device, CUDAAllocator* upstream, const ActivePools::Claim& claim,
                Ask&& ask) {
  if (claim.kind != ActivePools::Kind::kServed) return ask_upstream(device, upstream, ask);
  const WithinPool within(upstream, device.index, claim.pool);
  return ask_upstream(device, upstream, ask);
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
