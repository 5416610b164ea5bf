// Unified memory: as segments of torch's caching allocator, and as arenas for spilled slots.
//
//     at::empty ──▶ torch's caching allocator ──a segment──▶ a pool is active? ──▶ managed_alloc
//                                                                    └─ no ─────▶ cudaMalloc
//
// A pool of torch can have its own allocator for segments. Python creates such a pool: a
// torch.cuda.MemPool with `pgmo_managed_alloc` and `pgmo_managed_free`. This file directs requests
// of all threads to the pool. torch.cuda.use_mem_pool would cover only one thread, but the backward
// pass runs on another thread.
//
// This file is part of the translation unit torch_cuda.cpp.

#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "adapters/cuda/arenas.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// Blocks of unified memory by address, and current and peak bytes by device. Never destroyed.
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

// Allocate unified memory for a device. If CUDA refuses, clear CUDA's last error and return null.
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

// Free a block of `take_managed`. Other addresses have no effect.
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

// Direct a device's requests to the pool. Other active pools, which the adapter knows, have
// priority: torch itself would prefer the pool that became active first. Requests during a capture
// belong to the graph's own pool.
void begin_managed(int index, c10::cuda::MempoolId_t pool) {
  Device& device = devices()[index];
  current_adapter()->upstream()->beginAllocateToPool(
      static_cast<c10::DeviceIndex>(index), pool, [&device](cudaStream_t stream) {
        return !device.pools.claim(stream) && !is_capturing(stream);
      });
}

// Stop directing requests to the pool, and also release the reference of its torch.cuda.MemPool.
// Python never destroys the MemPool: its destructor calls emptyCache, which throws during a capture
// or while another pool is active. An exception in a destructor would end the process.
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
    // The cached memory goes back when the cache is emptied the next time.
  }
}

// Arena for spilled slots, of all streams.
struct Spilled {
  Device* device;
  void* block;
};

// `pgmo_arena::give_back`. Blocks of all streams lie in the arena, so wait for the device.
void give_spilled_back(void* context) {
  const std::unique_ptr<Spilled> spilled(static_cast<Spilled*>(context));
  if (forked.load()) return;  // the block belongs to the parent process
  synchronize(*spilled->device);
  drop_managed(spilled->block);
}

}  // namespace

// Functions with `message` return 0 on success; otherwise 1, with the reason in `message`.
extern "C" {

// Allocate a segment of unified memory. A torch.cuda.memory.CUDAPluggableAllocator calls this
// function and `pgmo_managed_free`.
void* pgmo_managed_alloc(ssize_t bytes, int device, cudaStream_t) {
  if (bytes < 0 || device_or_null(device) == nullptr) return nullptr;
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

// Store the bytes of unified memory of a device, and their peak since the last call with `reset`.
void pgmo_managed_bytes(int device, int reset, uint64_t* now, uint64_t* peak) {
  *now = *peak = 0;
  if (device_or_null(device) == nullptr) return;
  Managed& all = managed();
  const std::lock_guard guard(all.mutex);
  *now = all.now[device];
  *peak = all.peak[device];
  if (reset != 0) all.peak[device] = all.now[device];
}

// Take an arena of unified memory for spilled slots.
int pgmo_take_spill(int device, size_t bytes, pgmo_arena* out, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    require_own_device();
    Device& one = device_at(device);
    const OnDevice on(device);
    auto spilled = std::make_unique<Spilled>(&one, nullptr);
    spilled->block = take_managed(bytes, device);
    TORCH_CHECK(spilled->block != nullptr, "cannot allocate ", binary_units(bytes),
                " of unified memory");
    hold(std::move(spilled), bytes, give_spilled_back, out);
  });
}

}  // extern "C"
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
