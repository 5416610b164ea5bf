// Which adapter is current: one lies over each allocator that was torch's when a session began.
//
// Included by torch_cuda.cpp alone, as adapter.hpp is.

#pragma once

#include <c10/util/Exception.h>

#include <array>

#include "adapters/cuda/adapter.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

std::array<TorchCudaAdapter*, kMostUpstreams> adapters{};  // never destroyed
bool stored = false;                                       // by us, not by torch's own call
bool left_beneath = false;  // another allocator lay on top when it was to be taken away

TorchCudaAdapter* as_ours(CUDAAllocator* allocator_now) {
  for (TorchCudaAdapter* adapter : adapters) {
    if (adapter != nullptr && adapter == allocator_now) return adapter;
  }
  return nullptr;
}

TorchCudaAdapter* adapter_over(CUDAAllocator* upstream) {
  for (int index = 0; index < kMostUpstreams; ++index) {
    if (adapters[index] == nullptr) adapters[index] = new TorchCudaAdapter(upstream, index);
    if (adapters[index]->upstream() == upstream) return adapters[index];
  }
  TORCH_CHECK(false, "the CUDA allocator has been exchanged more than ", kMostUpstreams,
              " times in this process");
}

// Whether one of ours has lain over it.
bool was_wrapped(CUDAAllocator* allocator_now) {
  for (const TorchCudaAdapter* adapter : adapters) {
    if (adapter != nullptr && adapter->upstream() == allocator_now) return true;
  }
  return false;
}

// The adapter that is current, or the one that would be.
TorchCudaAdapter* current_adapter() {
  CUDAAllocator* now = get();
  if (TorchCudaAdapter* ours = as_ours(now)) return ours;
  // Two of ours in one chain would take each other's blocks for the framework's.
  TORCH_CHECK((!left_beneath && !stored) || was_wrapped(now),
              "an earlier session's adapter lies beneath the CUDA allocator that was installed on "
              "top of it; take that one away before");
  return adapter_over(now);
}

// Before a call of the driver.
void require_own_device() {
  TORCH_CHECK(!forked.load(),
              "CUDA cannot be used in a process that was forked after it had been "
              "initialized: use the 'spawn' start method");
}

bool is_known(int device) {
  return device >= 0 && device < kMostDevices;
}

Device& device_at(int index) {
  TORCH_CHECK(is_known(index), "pgmo knows the CUDA devices 0 to ", kMostDevices - 1, ", not ",
              index);
  return devices()[index];
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
