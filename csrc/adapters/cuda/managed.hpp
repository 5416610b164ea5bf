// Unified memory: segments of torch's caching allocator, and arenas for spilled slots.
//
//     at::empty ──▶ torch's caching allocator ──a segment──▶ a pool is active? ──▶ managed_alloc
//                                                                    └─ no ─────▶ cudaMalloc
//
// A pool in torch can have its own allocator for segments. Python creates the pool, a
// torch.cuda.MemPool over the two functions below. This file directs requests of all threads to it;
// torch.cuda.use_mem_pool covers one thread, but the backward pass runs on another.
//
// Only torch_cuda.cpp includes this file.

#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "adapters/cuda/current.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// Blocks of unified memory, with the device of each request. Never destroyed.
struct Managed {
  std::mutex mutex;
  std::unordered_map<void*, std::pair<int, size_t>> blocks;
  std::array<uint64_t, kMostDevices> now{};
  std::array<uint64_t, kMostDevices> peak{};
};

Managed& managed() {
  static auto* const all = new Managed;
  return *all;
}

// Return null if there is no memory, and clear CUDA's last error.
void* take_managed(size_t bytes, int device) {
  void* block = nullptr;
  if (cudaMallocManaged(&block, bytes, cudaMemAttachGlobal) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  Managed& all = managed();
  const std::lock_guard guard(all.mutex);
  all.blocks[block] = {device, bytes};
  all.now[device] += bytes;
  all.peak[device] = std::max(all.peak[device], all.now[device]);
  return block;
}

void drop_managed(void* block) {
  {
    Managed& all = managed();
    const std::lock_guard guard(all.mutex);
    const auto found = all.blocks.find(block);
    if (found == all.blocks.end()) return;
    all.now[found->second.first] -= found->second.second;
    all.blocks.erase(found);
  }
  if (cudaFree(block) != cudaSuccess) (void)cudaGetLastError();
}

// Direct requests to the pool. Pools begun on top of it, which the adapter knows, have priority,
// although torch asks the pool that was begun first. Blocks of a capture come from the graph's own
// pool.
void begin_managed(int index, c10::cuda::MempoolId_t pool) {
  Device& device = devices()[index];
  current_adapter()->upstream()->beginAllocateToPool(
      static_cast<c10::DeviceIndex>(index), pool, [&device](cudaStream_t stream) {
        return !device.pools.claim(stream) && !is_capturing(stream);
      });
}

// Also release the reference of the torch.cuda.MemPool, which Python never destroys. Its destructor
// would end the process during a capture or with another active pool, because emptyCache throws in
// it.
void end_managed(int index, c10::cuda::MempoolId_t pool) {
  auto* upstream = current_adapter()->upstream();
  const auto device = static_cast<c10::DeviceIndex>(index);
  upstream->endAllocateToPool(device, pool);
  upstream->releasePool(device, pool);
  upstream->releasePool(device, pool);
  const auto empty = [pool](auto* allocator) {
    if constexpr (requires { allocator->emptyCache(pool); }) {
      allocator->emptyCache(pool);
    } else {
      allocator->emptyCache();  // torch 2.6 and before
    }
  };
  try {
    empty(upstream);
  } catch (const c10::Error&) {
    // The cached memory goes back the next time the cache is emptied.
  }
}

// An arena for spilled slots. Blocks of any stream lie in it.
struct Spilled {
  Device* device;
  void* block;
};

void give_spilled_back(void* context) {
  const std::unique_ptr<Spilled> spilled(static_cast<Spilled*>(context));
  if (forked.load()) return;  // it belongs to the parent
  synchronize(*spilled->device);
  drop_managed(spilled->block);
}

}  // namespace

// Functions for Python, as in torch_cuda.cpp.
extern "C" {

// Allocate segments of a pool of unified memory, for torch.cuda.memory.CUDAPluggableAllocator.
void* pgmo_managed_alloc(ssize_t bytes, int device, cudaStream_t) {
  if (bytes < 0 || !is_known(device)) return nullptr;
  return take_managed(static_cast<size_t>(bytes), device);
}

void pgmo_managed_free(void* block, ssize_t, int, cudaStream_t) {
  drop_managed(block);
}

// Direct requests of all threads to the pool, until `pgmo_managed_end`.
int pgmo_managed_begin(int device, uint64_t first, uint64_t second, char* message,
                       size_t capacity) {
  return guarded(message, capacity, [&] {
    require_own_device();
    (void)device_at(device);
    begin_managed(device, {first, second});
  });
}

int pgmo_managed_end(int device, uint64_t first, uint64_t second, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    require_own_device();
    end_managed(device, {first, second});
  });
}

// Return the bytes of unified memory held for a device, and their peak since the last call with
// `reset`.
void pgmo_managed_bytes(int device, int reset, uint64_t* now, uint64_t* peak) {
  *now = *peak = 0;
  if (!is_known(device)) return;
  Managed& all = managed();
  const std::lock_guard guard(all.mutex);
  *now = all.now[device];
  *peak = all.peak[device];
  if (reset != 0) all.peak[device] = all.now[device];
}

int pgmo_take_spill(int device, size_t bytes, pgmo_arena* out, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    require_own_device();
    Device& one = device_at(device);
    const OnDevice on(device);
    auto spilled = std::make_unique<Spilled>(&one, nullptr);
    spilled->block = take_managed(bytes, device);
    TORCH_CHECK(spilled->block != nullptr, "no ", binary_units(static_cast<double>(bytes)),
                " of unified memory can be had");
    *out = {.base = spilled->block,
            .bytes = bytes,
            .give_back = give_spilled_back,
            .context = spilled.get()};
    (void)spilled.release();
  });
}

}  // extern "C"
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
