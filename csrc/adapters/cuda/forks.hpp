// Takes the adapter's locks around a fork, and switches the adapter off in a forked child.
//
// A child has no device. It may free inherited blocks, so engines and pages keep their records of
// these blocks. The adapter in a child serves no block, waits for no stream, gives nothing back,
// and makes no driver call.
//
// Only torch_cuda.cpp includes this file.

#pragma once

#include <mutex>

#include "adapters/cuda/history/trace.hpp"
#include "adapters/cuda/managed.hpp"
#include "adapters/cuda/pages/sharing.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// Visit, in locking order, the locks that may be held while other locks are taken.
template <typename Visit>
void for_each_outer_lock(Visit&& visit) {
  visit(Trace::get().mutex());
  visit(sharing_mutex());
  for (Device& device : devices()) visit(device.mutex);
  for (Device& device : devices()) visit(device.fraction.mutex);
}

// Visit the locks under which no other lock of pgmo or of torch's allocator is taken.
template <typename Visit>
void for_each_leaf_lock(Visit&& visit) {
  visit(history().mutex());
  visit(managed().mutex);
  visit(expandable_segments().mutex());
  for (Device& device : devices()) {
    if (graphs::Chains* const chains = chains_of(device.index)) visit(chains->mutex());
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

// Turn this process into a child without a device. If the parent has not used CUDA, do nothing,
// because the child may use it. Requires all locks.
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

// Register the adapter's locks for all later forks. Only the first call has an effect.
void handle_forks() {
  static const bool handled = [] {
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
  TORCH_CHECK(handled, "pgmo cannot prepare for forks: the host is out of memory");
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
