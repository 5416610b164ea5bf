// Requests in a torch.cuda.MemPool without an allocator of its own: pages serve them, in windows of
// the pool.
//
//     MemPool()       ──▶ createOrIncrefPool    pages serve the pool from now on
//     use_mem_pool    ──▶ beginAllocateToPool   requests of the thread ──▶ windows of the pool;
//                                               without a page, during a capture, or after the
//                                               session ──▶ the allocator beneath, in its pool of
//                                               the same id
//     last user       ──▶ releasePool           the pool's idle pages go back to the card
//
// Idle pages of a pool may serve other windows, and a pool may use pages that are idle elsewhere.
// The allocator beneath has a pool of the same id, and counts its users.
//
// Pools with `no_split` and pools that are registered with NCCL need whole segments of the driver.
// So the allocator beneath serves them.
//
// Only adapter.hpp includes this file.

#pragma once

#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "adapters/cuda/graphs/serving.hpp"
#include "adapters/cuda/history/snapshot.hpp"
#include "adapters/cuda/out_of_memory.hpp"
#include "adapters/cuda/pages/windows.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

using PoolId = c10::cuda::MempoolId_t;

constexpr const char* kAlreadyActive = "beginAllocateToPool: already recording to mempool_id";

// Return whether pages may serve pools: always, unless PGMO_POOLS=0.
bool serves_pools() {
  static const bool wanted = [] {
    const char* const value = std::getenv("PGMO_POOLS");
    return value == nullptr || std::string_view(value) != "0";
  }();
  return wanted;
}

// Let pages serve a torch.cuda.MemPool that was just created, unless it has an allocator `own`.
// Torch serves all other pools. The id of a torch.cuda.MemPool is (0, n) with n > 0; the id of a
// graph's pool is (n, 0).
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

// Let the allocator beneath serve later requests of a pool.
template <typename... More>
void leave_pool(int index, PoolId pool, const More&...) {
  Device* const device = device_or_null(index);
  if (device == nullptr || !device->pools.stop_serving(pool)) return;
  pages_api->close_pool(device->pages(), pool.second);
}

// Return whether a live block lies in windows of the pool.
bool lives_in_pages(int index, PoolId pool) {
  Device* const device = device_or_null(index);
  if (device == nullptr || device->pages() == nullptr || !device->pools.serves(pool)) return false;
  const std::vector<Run> runs = runs_of_pages(*device);
  const std::vector<Run> living = living_blocks(*device);
  return std::any_of(runs.begin(), runs.end(), [&](const Run& run) {
    return run.pool == pool.second &&
           std::any_of(living.begin(), living.end(), [&](const Run& block) {
             return block.address >= run.address && block.address < run.address + run.bytes;
           });
  });
}

// Release idle pages, up to the bytes that are idle in the pool's windows. The released pages may
// lie in other windows. Does nothing during a capture.
void empty_pool(Device& device, PoolId pool) {
  if (device.pools.any()) return;
  const uint64_t idle = pages_api->idle_in(device.pages(), pool.second);
  if (idle == 0) return;
  synchronize(device);
  (void)pages_api->give_back(device.pages(), idle);
}

// Record that a user has released a pool. After the last user, pages stop serving the pool. Even a
// pool that the allocator beneath serves by then may have windows. Pools with an id (n, 0) belong
// to graphs and have no windows.
void note_release(CUDAAllocator* upstream, c10::DeviceIndex index, PoolId pool) {
  note_graph_release(upstream, index, pool);
  Device* const device = device_or_null(index);
  if (device == nullptr || users_of(upstream, index, pool).value_or(0) != 0) return;
  device->baseline.release_pool(pool);
  if (pool.first != 0 || pool.second == 0) return;
  (void)device->pools.stop_serving(pool);
  if (device->pages() == nullptr) return;
  empty_pool(*device, pool);
  pages_api->close_pool(device->pages(), pool.second);
}

// Add a user to the pool of this id in the allocator beneath, created if necessary. Does nothing in
// versions of torch without `createOrIncrefPool`.
template <typename Allocator>
void add_user(Allocator* upstream, c10::DeviceIndex index, PoolId pool) {
  if constexpr (requires { upstream->createOrIncrefPool(index, pool, nullptr); }) {
    upstream->createOrIncrefPool(index, pool, nullptr);
  }
}

// Scope in which the allocator beneath serves requests of this thread from a pool.
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
      // Another thread has made the pool active, so the block lies outside of the pool. PyTorch has
      // counted a user before the error, so the destructor must release the pool here, too.
    }
  }
  ~WithinPool() {
    try {
      if (begun_) upstream_->endAllocateToPool(index_, pool_);
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

// Request a block from the allocator beneath on behalf of an active pool.
template <typename Ask>
auto ask_within(Device& device, CUDAAllocator* upstream, const ActivePools::Claim& claim,
                Ask&& ask) {
  if (!ActivePools::is_unseen(claim.kind)) return ask_upstream(device, upstream, ask);
  const WithinPool within(upstream, device.index, claim.pool);
  return ask_upstream(device, upstream, ask);
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
