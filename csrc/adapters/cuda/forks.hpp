// The adapter around a fork: its locks, and what a child keeps of it.
//
// A child has no device. It may drop what it inherits, so slots and pages still know their blocks;
// nothing is served, waited for, or given back, and no call of the driver is made.
//
// Included by torch_cuda.cpp alone.

#pragma once

#include <mutex>

#include "adapters/cuda/history/trace.hpp"
#include "adapters/cuda/managed.hpp"
#include "adapters/cuda/pages/sharing.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// Locks that are held while pages, the engine or torch's allocator are called, in their order.
template <typename Visit>
void for_each_outer_lock(Visit&& visit) {
  visit(Trace::get().mutex());
  visit(sharing_mutex());
  for (Device& device : devices()) visit(device.mutex);
  for (Device& device : devices()) visit(device.fraction.mutex);
}

// Locks under which no other lock of pgmo's is taken, nor one of torch's allocator.
template <typename Visit>
void for_each_leaf_lock(Visit&& visit) {
  visit(history().mutex());
  visit(managed().mutex);
  for (Device& device : devices()) {
    visit(device.baseline.mutex());
    visit(device.deferred.mutex());
    visit(device.pools.mutex());
    visit(device.splits.mutex());
    visit(device.streams.mutex());
    if (device.page_device == nullptr) continue;
    visit(device.page_device->mutex());
    visit(device.page_device->exports().mutex());
  }
}

constexpr auto kTake = [](std::mutex& mutex) { mutex.lock(); };
constexpr auto kFree = [](std::mutex& mutex) { mutex.unlock(); };

// All locks are held. A child of a process that has not used CUDA may use it itself.
void become_child() {
  if (!cuda_used.load()) return;
  forked.store(true);
  pages_everywhere.store(false);
  Trace::get().stop();
  for (Device& device : devices()) {
    device.mode.store(nullptr);
    device.serves_pages.store(false);
    device.attended.store(false);
    device.has_survivors.store(false);
    device.baseline.become_child();
    device.deferred.forget();
    device.splits.forget();
    if (device.page_device != nullptr) device.page_device->exports().forget();
  }
}

// Once: afterwards each fork takes the adapter's locks.
void heed_forks() {
  static const bool heeded = [] {
    return pages_api->at_fork(
               PGMO_LOCKS_OUTER, nullptr, [](void*) { for_each_outer_lock(kTake); },
               [](void*, int) { for_each_outer_lock(kFree); }) != 0 &&
           pages_api->at_fork(
               PGMO_LOCKS_LEAF, nullptr, [](void*) { for_each_leaf_lock(kTake); },
               [](void*, int child) {
                 if (child != 0) become_child();
                 for_each_leaf_lock(kFree);
               }) != 0;
  }();
  TORCH_CHECK(heeded, "there is no memory on the host for a handler of forks");
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
