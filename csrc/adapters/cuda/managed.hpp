// Unified memory: segments of torch's own caching allocator, and arenas of what a plan spills.
//
//     at::empty ──▶ torch's caching allocator ──a segment──▶ a pool is active? ──▶ managed_alloc
//                                                                    └─ no ─────▶ cudaMalloc
//
// torch lets a pool have an allocator of its own for segments. Python makes the pool
// (torch.cuda.MemPool over the two functions below); here requests are sent to it: those of all
// threads, for the backward pass runs on another one, which torch.cuda.use_mem_pool leaves out.
//
// Included by torch_cuda.cpp alone.

#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "adapters/cuda/current.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// What is held of unified memory, by the device that it was taken for. Never destroyed.
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

// Null, with nothing left behind for cudaGetLastError, where there is no memory.
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

// What is captured must come from the graph's own pool.
bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) {
    (void)cudaGetLastError();
    return true;
  }
  return status != cudaStreamCaptureStatusNone;
}

// Of allocator and pool. Pools that were begun on top of this one, which the adapter is told of,
// come first, although torch asks the one that was begun first.
void begin_managed(int index, c10::cuda::MempoolId_t pool) {
  Device& device = devices()[index];
  current_adapter()->upstream()->beginAllocateToPool(
      static_cast<c10::DeviceIndex>(index), pool, [&device](cudaStream_t stream) {
        return !device.pools.claim(stream) && !is_capturing(stream);
      });
}

// Also gives up the pool for torch.cuda.MemPool, which Python never destroys: while another pool is
// in use or a graph is captured, that destructor ends the process, because emptyCache throws in it.
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
    // What is cached goes back when the cache is emptied next.
  }
}

// An arena for what a plan spills. Blocks of any stream lie in it.
struct Spilled {
  Device* device;
  void* block;
};

void give_spilled_back(void* context) {
  const std::unique_ptr<Spilled> spilled(static_cast<Spilled*>(context));
  if (forked.load()) return;  // it is the parent's
  synchronize(*spilled->device);
  drop_managed(spilled->block);
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
