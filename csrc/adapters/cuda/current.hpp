// Adapters of this process. Each wraps an allocator that torch used when a session began.
//
// This file is part of the translation unit torch_cuda.cpp.

#pragma once

#include <c10/util/Exception.h>

#include "adapters/cuda/adapter.hpp"
#include "adapters/cuda/graphs/segments.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

Adapters<TorchCudaAdapter, CUDAAllocator, kMostUpstreams> adapters("CUDA");
bool stored = false;        // whether pgmo_install, rather than torch, installed the adapter
bool left_beneath = false;  // an adapter could not be uninstalled: another allocator came after it

// Return the installed adapter, or the adapter for torch's current allocator if none is installed.
// Throws c10::Error if that allocator was installed after an adapter, and so may wrap it.
TorchCudaAdapter* current_adapter() {
  CUDAAllocator* now = get();
  if (TorchCudaAdapter* ours = adapters.find(now)) return ours;
  // Two adapters in one chain of allocators would treat each other's blocks as torch's.
  TORCH_CHECK((!left_beneath && !stored) || adapters.wraps(now),
              "the current CUDA allocator was installed after pgmo's adapter, and may wrap it; "
              "remove that allocator first");
  return adapters.over(now);
}

// Throw in a forked child, whose device belongs to the parent. Called before any driver call.
void require_own_device() {
  TORCH_CHECK(!forked.load(),
              "CUDA cannot be used in a process that was forked after CUDA had been "
              "initialized: use the 'spawn' start method");
}

Device& device_at(int index) {
  Device* const device = device_or_null(index);
  TORCH_CHECK(device != nullptr, "pgmo supports the CUDA devices 0 to ", kMostDevices - 1, ", not ",
              index);
  return *device;
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
