// Adapters of this process, and the current one. Each wraps an allocator that torch used when a
// session began.
//
// This file is part of the translation unit torch_cuda.cpp.

#pragma once

#include <c10/util/Exception.h>

#include <array>

#include "adapters/cuda/adapter.hpp"
#include "adapters/cuda/graphs/segments.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

std::array<TorchCudaAdapter*, kMostUpstreams> adapters{};  // never destroyed
bool stored = false;        // whether pgmo_install, rather than torch, installed the adapter
bool left_beneath = false;  // an adapter could not be uninstalled: another allocator wrapped it

// Return the allocator if it is one of our adapters, else nullptr.
TorchCudaAdapter* as_ours(CUDAAllocator* allocator_now) {
  for (TorchCudaAdapter* adapter : adapters) {
    if (adapter != nullptr && adapter == allocator_now) return adapter;
  }
  return nullptr;
}

// Return the adapter that wraps `upstream`, created if there is none.
TorchCudaAdapter* adapter_over(CUDAAllocator* upstream) {
  for (int index = 0; index < kMostUpstreams; ++index) {
    if (adapters[index] == nullptr) adapters[index] = new TorchCudaAdapter(upstream, index);
    if (adapters[index]->upstream() == upstream) return adapters[index];
  }
  TORCH_CHECK(false, "the CUDA allocator has been replaced more than ", kMostUpstreams,
              " times in this process");
}

// Return whether an adapter of pgmo wraps this allocator.
bool was_wrapped(CUDAAllocator* allocator_now) {
  for (const TorchCudaAdapter* adapter : adapters) {
    if (adapter != nullptr && adapter->upstream() == allocator_now) return true;
  }
  return false;
}

// Return the installed adapter, or the adapter for torch's current allocator if none is installed.
TorchCudaAdapter* current_adapter() {
  CUDAAllocator* now = get();
  if (TorchCudaAdapter* ours = as_ours(now)) return ours;
  // Two adapters in one chain of allocators would treat each other's blocks as torch's.
  TORCH_CHECK((!left_beneath && !stored) || was_wrapped(now),
              "the current CUDA allocator wraps the adapter of an earlier session of pgmo; remove "
              "that allocator first");
  return adapter_over(now);
}

// Throw in a forked child, whose device belongs to the parent. Called before any driver call.
void require_own_device() {
  TORCH_CHECK(!forked.load(),
              "CUDA cannot be used in a process that was forked after it had been "
              "initialized: use the 'spawn' start method");
}

bool is_known(int device) {
  return device >= 0 && device < kMostDevices;
}

Device& device_at(int index) {
  TORCH_CHECK(is_known(index), "pgmo supports the CUDA devices 0 to ", kMostDevices - 1, ", not ",
              index);
  return devices()[index];
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
