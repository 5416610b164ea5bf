// Allocator of segments for a pool of graphs. Torch's allocator calls it in place of the driver.
//
// This file is part of the translation unit torch_cuda.cpp.

#pragma once

#include <memory>
#include <utility>

#include "adapters/cuda/adapter.hpp"
#include "adapters/cuda/graphs/serving.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// Allocator of one pool's segments. Torch calls only the two methods below, under its own lock.
class GraphSegments final : public TorchCudaAdapter {
 public:
  GraphSegments(CUDAAllocator* upstream, int index, graphs::Chains& chains, graphs::PoolId pool)
      : TorchCudaAdapter(upstream, index), chains_(chains), pool_(std::move(pool)) {}

  void* raw_alloc(size_t bytes) override {
    return reinterpret_cast<void*>(chains_.allocate(pool_, bytes));
  }
  void raw_delete(void* segment) override {
    if (forked.load()) return;
    (void)chains_.deallocate(reinterpret_cast<graphs::Address>(segment));
  }

 private:
  graphs::Chains& chains_;
  const graphs::PoolId pool_;
};

// Create a pool in torch's allocator that gets its segments from `segments`. Return false if this
// version of torch has no such pools.
template <typename Allocator>
bool create_pool(Allocator* upstream, c10::DeviceIndex device, c10::cuda::MempoolId_t pool,
                 std::shared_ptr<CUDAAllocator> segments) {
  if constexpr (requires { upstream->createOrIncrefPool(device, pool, segments); }) {
    upstream->createOrIncrefPool(device, pool, std::move(segments));
    return true;
  } else if constexpr (requires { upstream->createOrIncrefPool(device, pool, segments.get()); }) {
    // The pool keeps a plain pointer, so the allocator must never be destroyed.
    auto* const kept = new std::shared_ptr<CUDAAllocator>(std::move(segments));
    upstream->createOrIncrefPool(device, pool, kept->get());
    return true;
  } else {
    return false;
  }
}

}  // namespace

bool TorchCudaAdapter::begin_graph(c10::DeviceIndex index, c10::cuda::MempoolId_t pool) {
  Device* const device = device_or_null(index);
  if (device == nullptr) return false;
  const uint64_t graph = std::exchange(announced_graph, 0);
  graphs::Chains* chains = chains_of(index);
  const bool known = chains != nullptr && chains->knows(pool);
  if (known && graph == 0) {
    const bool apart = with_room(*device, upstream_, [&] { return chains->keep_apart(pool); });
    TORCH_CHECK_WITH(OutOfMemoryError, apart,
                     "CUDA out of memory. The pool of this graph needs pages of its own");
  }
  if (graph == 0) return false;
  if (known) {
    const auto alive = living_in(upstream_, pool);
    const bool begun =
        with_room(*device, upstream_, [&] { return chains->begin(pool, graph, alive); });
    TORCH_CHECK_WITH(OutOfMemoryError, begun,
                     "CUDA out of memory. The pool of this graph needs its lent pages back");
    return false;
  }
  if (users_of(upstream_, index, pool)) return false;  // the pool exists, with segments of torch
  chains = open_graphs(*device, upstream_);
  if (chains == nullptr) return false;
  try {
    auto segments = std::make_shared<GraphSegments>(upstream_, index_, *chains, pool);
    if (!create_pool(upstream_, index, pool, std::move(segments))) return false;
  } catch (const c10::Error&) {
    return false;  // the allocator beneath has no such pools
  }
  (void)chains->begin(pool, graph, {});  // a new pool has lent no pages
  return true;
}

}  // namespace c10::cuda::CUDACachingAllocator::pgmo
