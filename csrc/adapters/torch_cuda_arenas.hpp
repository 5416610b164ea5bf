// What pgmo takes from the allocator beneath for itself: arenas, and regions from pools.
//
// Included by torch_cuda.cpp alone, like torch_cuda_adapter.hpp.

#pragma once

#include <cstdio>
#include <thread>

#include "adapters/torch_cuda_adapter.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

struct Holding {
  CUDAAllocator* upstream;
  void* block;
  Device* device;
  uint64_t absences;
  bool pooled;
  c10::cuda::MempoolId_t pool;
};

void give_back(void* context) {
  const std::unique_ptr<Holding> holding(static_cast<Holding*>(context));
  try {
    // A region holds blocks of any stream; and what lived while the adapter was away may have been
    // used on another stream.
    if (holding->pooled || holding->absences != absences.load()) synchronize(*holding->device);
    const OnDevice on(holding->device->index);
    holding->upstream->raw_delete(holding->block);
  } catch (const std::exception& error) {
    // Nothing can be thrown from a free; the block stays with the allocator beneath.
    std::fprintf(stderr, "pgmo: an arena could not be given back: %s\n", error.what());
  }
}

void hold(std::unique_ptr<Holding> holding, size_t bytes, pgmo_arena* out) {
  *out = {.base = holding->block, .bytes = bytes, .give_back = give_back, .context = holding.get()};
  holding.release();
}

// Numbers that torch does not use: its own count up from one.
std::atomic<uint64_t> next_pool{uint64_t{1} << 62};

// From a pool of its own, so that the block is not cut from a cached one, which would be pinned.
void* take_from_pool(CUDAAllocator* upstream, int device, size_t bytes,
                     c10::cuda::MempoolId_t pool) {
  const std::thread::id self = std::this_thread::get_id();
  upstream->beginAllocateToPool(
      device, pool, [self](cudaStream_t) { return std::this_thread::get_id() == self; });
  void* block = nullptr;
  try {
    block = upstream->raw_alloc_with_stream(bytes, nullptr);
  } catch (...) {
    upstream->endAllocateToPool(device, pool);
    upstream->releasePool(device, pool);
    throw;
  }
  upstream->endAllocateToPool(device, pool);
  upstream->releasePool(device, pool);  // ends with its last block
  return block;
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
