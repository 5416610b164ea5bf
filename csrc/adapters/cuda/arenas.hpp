// Arenas that pgmo takes from the allocator beneath.
//
// This file is part of the translation unit torch_cuda.cpp.

#pragma once

#include <cstdio>

#include "adapters/cuda/current.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// The block of an arena, and the allocator to which it goes back.
struct Holding {
  CUDAAllocator* upstream;
  void* block;
  Device* device;
  uint64_t absences;  // value of the counter `absences` when the block was taken
};

// Free an arena's block: `pgmo_arena::give_back`.
void give_back(void* context) {
  const std::unique_ptr<Holding> holding(static_cast<Holding*>(context));
  if (forked.load()) return;  // the block belongs to the parent process
  try {
    // While the adapter was not installed, it did not see the use of blocks on other streams.
    if (holding->absences != absences.load()) synchronize(*holding->device);
    const OnDevice on(holding->device->index);
    holding->upstream->raw_delete(holding->block);
  } catch (const std::exception& error) {
    // A free cannot throw, so the block stays allocated in the allocator beneath.
    std::fprintf(stderr, "pgmo: an arena could not be given back: %s\n", error.what());
  }
}

// Fill `out` with an arena of `owner->block`, which `give_back` frees.
template <typename Owner>
void hold(std::unique_ptr<Owner> owner, size_t bytes, void (*give_back)(void*), pgmo_arena* out) {
  *out = {.base = owner->block, .bytes = bytes, .give_back = give_back, .context = owner.get()};
  (void)owner.release();
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
