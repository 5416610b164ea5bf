// CUDA adapter: the allocator that torch calls. It wraps the allocator that torch called before:
// "the allocator beneath" (`upstream`).
//
// This file is part of the translation unit torch_cuda.cpp, whose state all its headers share.
// Every method may be called from any thread. forks.hpp lists the locks that a method may hold
// while it calls upstream, the engine or the pages.
//
// Three kinds of blocks from `allocate` have a deleter of pgmo: slots, blocks of windows, and
// blocks that the engine tracks. All others keep the deleter that upstream gave them. `raw_deleter`
// returns upstream's deleter, which torch compares with the deleters of blocks in pools.

#pragma once

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "adapters/cuda/device.hpp"
#include "adapters/cuda/graphs/serving.hpp"
#include "adapters/cuda/history/snapshot.hpp"
#include "adapters/cuda/history/trace.hpp"
#include "adapters/cuda/out_of_memory.hpp"
#include "adapters/cuda/pages/sharing.hpp"
#include "adapters/cuda/pages/user_pools.hpp"
#include "adapters/cuda/pools/torch_expandable.hpp"
#include "adapters/torch_common.hpp"
#include "engine/pgmo_engine.h"

// The adapter is in torch's namespace, because generated methods use torch's types unqualified.
namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

class TorchCudaAdapter : public CUDAAllocator {
 public:
// Generated: methods that only forward, and macros that name this torch version's other methods.
#include "torch_cuda_forwarders.inc"

  TorchCudaAdapter(CUDAAllocator* upstream, int index)
      : upstream_(upstream), upstream_deleter_(upstream->raw_deleter()), index_(index) {
    upstreams[index] = upstream;
  }

  CUDAAllocator* upstream() const { return upstream_; }

  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex current = current_device();
    return serve(
        current, bytes, [&] { return c10::cuda::getCurrentCUDAStream(current).stream(); },
        [&] { return upstream_->allocate(bytes); },
        [&](Device&, void* block) -> c10::DataPtr {
          return {block, block, deleter(current), c10::Device(c10::DeviceType::CUDA, current)};
        },
        [&](Device& device, c10::DataPtr& data, uint32_t stream, const void* gap) {
          if (gap != nullptr) device.splits.served(gap, data.get());
          // Blocks with a context or deleter of their own stay as they are, unseen by the engine.
          if (data.get() == data.get_context() && data.get_deleter() == upstream_deleter_ &&
              api->adopt(device.engine, data.get(), bytes, stream, gap == data.get())) {
            (void)data.compare_exchange_deleter(upstream_deleter_, deleter(current));
          }
        });
  }

  void* raw_alloc(size_t bytes) override {
    const c10::DeviceIndex current = current_device();
    return raw_alloc_with_stream(bytes, c10::cuda::getCurrentCUDAStream(current).stream());
  }

  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    return serve(
        current_device(), bytes, [&] { return stream; },
        [&] { return upstream_->raw_alloc_with_stream(bytes, stream); },
        [](Device& device, void* block) {
          const std::lock_guard guard(device.mutex);
          device.raw_slots.insert(block);
          return block;
        },
        [&](Device& device, void* block, uint32_t number, const void* gap) {
          if (gap != nullptr) device.splits.served(gap, block);
          // `raw_delete` reports the free of this block, so the block needs no deleter of pgmo.
          (void)api->adopt(device.engine, block, bytes, number, gap == block);
        });
  }

  void raw_delete(void* block) override {
    if (block == nullptr) return;
    for (Device& device : devices()) {
      if (!device.connected() && device.pages() == nullptr) continue;
      if (is_own(device, block)) {
        {
          const std::lock_guard guard(device.mutex);
          device.raw_slots.erase(block);
        }
        return release(device, upstream_, block);
      }
      (void)release_slot(device, block);  // the engines forget the block if they track it
      sync_if_detached(device, block);
    }
    upstream_->raw_delete(block);
    for (Device& device : devices()) {
      if (device.splits.any()) device.splits.freed(block);
    }
  }

  c10::DeleterFnPtr raw_deleter() const override { return upstream_deleter_; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    upstream_->copy_data(to, from, bytes);
  }

  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override {
    const int index = data.get() == nullptr ? -1 : upstream_of(data.get_deleter());
    if (index < 0) {
      // A library's block with upstream's deleter. The allocator beneath reuses the block's memory
      // only after the other stream's work. So `raw_delete` must not return the block to its gap.
      Device* const device = known_device(data.device().index());
      if (device != nullptr && device->splits.any()) device->splits.forget_block(data.get());
      return upstream_->recordStream(data, stream);
    }
    Device& device = devices()[data.device().index()];
    // Each device has its own streams, but the default stream has the same handle on all devices.
    const auto number = stream.device_index() == device.index
                            ? device.streams.number_of(stream.stream())
                            : std::nullopt;
    const uint64_t known = number ? *number : ~uint64_t{0};
    const auto defer = [&] {
      device.deferred.note(data.get(), stream.device_index(), stream.stream());
    };
    const bool a_slot = device.any_engine(
        [&](pgmo_engine* engine) { return api->shared(engine, data.get(), known) == PGMO_SLOT; });
    if (stream.device_index() == device.index) {
      device.baseline.used(data.get(), stream.device_index(), stream.stream());
    }
    if (a_slot) {
      defer();
    } else if (device.pages() != nullptr && pages_api->owns(device.pages(), data.get())) {
      const bool noted = number && pages_api->use_block(device.pages(), data.get(), *number);
      const bool a_window = pages_api->size_of(device.pages(), data.get()) != 0;
      if (!noted && a_window) defer();
    } else if (!is_own(device, data.get())) {
      if (device.splits.any()) device.splits.forget_block(data.get());
      // Torch's allocator ignores blocks with an unknown deleter, so pass a view with torch's
      // deleter.
      c10::DataPtr view(data.get(), data.get(), upstreams[index]->raw_deleter(), data.device());
      try {
        upstreams[index]->recordStream(view, stream);
      } catch (...) {
        view.release_context();
        throw;
      }
      view.release_context();
    }
  }
#ifdef PGMO_HAS_recordStream_c10_Stream
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    recordStream(data, c10::cuda::CUDAStream(stream));
  }
#endif

  void* getBaseAllocation(void* block, size_t* size) override {
    if (const Device* const device = device_of_pages(block)) {
      if (size != nullptr) *size = bytes_of(*device, block);
      return block;
    }
    refuse_slot(block);
    return upstream_->getBaseAllocation(block, size);
  }

  ShareableHandle shareIpcHandle(void* block) override {
    if (Device* const device = device_of_pages(block)) {
      return share_pages(*device, upstream_, block);
    }
    refuse_slot(block);
    return upstream_->shareIpcHandle(block);
  }

  Stats getDeviceStats(c10::DeviceIndex device) override {
    Stats stats = upstream_->getDeviceStats(device);
    if (const Device* const one = device_or_null(device)) add_pages(*one, stats);
    return stats;
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    upstream_->resetPeakStats(device);
    if (Device* const one = device_or_null(device)) reset_peaks(*one, upstream_);
  }

#ifdef PGMO_HAS_emptyCache_pool
  void emptyCache(c10::cuda::MempoolId_t pool) override {
    upstream_->emptyCache(pool);
    if (pool == c10::cuda::MempoolId_t{0, 0}) return give_pages_back();
    for (Device& device : devices()) {
      device.baseline.empty_pool(pool);
      if (device.pools.serves(pool)) empty_pool(device, pool);
    }
  }
#else
  void emptyCache() override {
    upstream_->emptyCache();
    give_pages_back();
  }
#endif

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    upstream_->resetAccumulatedStats(device);
    if (Device* const one = device_or_null(device)) reset_accumulated(*one);
  }

  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    if (Device* const one = device_or_null(device)) {
      set_fraction(*one, upstream_, fraction);
    } else {
      upstream_->setMemoryFraction(fraction, device);
    }
  }

  double getMemoryFraction(c10::DeviceIndex device) override {
    const Device* const one = device_or_null(device);
    const double whole = one != nullptr ? one->fraction.whole.load() : -1;
    return whole >= 0 ? whole : upstream_->getMemoryFraction(device);
  }

  // Without caching, each block must come from the driver: memory checkers rely on this.
  void enable(bool value) override {
    upstream_->enable(value);
    set_caching(value);
  }

  // Torch calls this when the adapter becomes its CUDA allocator. torch.accelerator uses another
  // table of allocators, so register the adapter in that table, too.
  void init(int count) override {
    cuda_used.store(true);
    upstream_->init(count);
    follow_caching_of(upstream_);
    c10::SetAllocator(c10::DeviceType::CUDA, this);
  }

  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) override {
    upstream_->enablePeerAccess(device, peer);
    // Access is granted both ways: each device may access the other device's pages.
    for (const auto& [owner, reader] : {std::pair{device, peer}, std::pair{peer, device}}) {
      Device* const one = device_or_null(owner);
      if (one == nullptr || one->pages() == nullptr) continue;
      if (one->page_device->add_peer(reader)) grant_again(*one);
    }
  }

  void beginAllocateToPool(c10::DeviceIndex device, c10::cuda::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    Device* const one = device_or_null(device);
    auto kind = ActivePools::Kind::kCapture;
    if (one != nullptr) {
      const auto stream = c10::cuda::getCurrentCUDAStream(device).stream();
      kind = one->pools.kind_of(pool, filter, stream, one->paged());
      TORCH_CHECK(!one->pools.is_active(pool), kAlreadyActive);
    }
    if (kind == ActivePools::Kind::kServed) {
      add_user(upstream_, device, pool);
      return one->pools.begin(pool, std::move(filter), kind);
    }
    const bool created = begin_graph(device, pool);
    const bool expands = may_expand && !created && one != nullptr && one->paged() &&
                         !users_of(upstream_, device, pool);
    upstream_->beginAllocateToPool(device, pool, filter);
    if (created) upstream_->releasePool(device, pool);  // the capture is the pool's user now
    if (one == nullptr) return;
    if (expands) expandable_segments().choose({device, pool}, one->card);
    expandable_segments().begin({device, pool});
    one->pools.begin(pool, std::move(filter), kind);
    // A capture creates no pages, so the allocator beneath may use the rest of the fraction.
    (void)share_fraction(*one, upstream_);
  }

  void endAllocateToPool(c10::DeviceIndex device, c10::cuda::MempoolId_t pool) override {
    Device* const one = device_or_null(device);
    if (one == nullptr) return upstream_->endAllocateToPool(device, pool);
    // Replays may use addresses outside of the graph's pool, so pin the pages of all live blocks.
    const bool pins = one->pools.captured(pool) && one->pages() != nullptr;
    const auto kind = one->pools.end(pool);
    if (pins) pages_api->note_capture(one->pages());
    if (kind && ActivePools::is_unseen(*kind)) return;
    expandable_segments().end({device, pool});
    upstream_->endAllocateToPool(device, pool);
    end_graph(upstream_, device, pool);
  }

#ifdef PGMO_HAS_allocateWithAddress
  c10::DataPtr allocateWithAddress(size_t bytes, void* address) override {
    return upstream_->allocateWithAddress(bytes, address);
  }
#endif
#ifdef PGMO_HAS_markCaptureBegin
  void markCaptureBegin(c10::DeviceIndex device) override { upstream_->markCaptureBegin(device); }
#endif
#ifdef PGMO_HAS_markCaptureEnd
  void markCaptureEnd(c10::DeviceIndex device) override { upstream_->markCaptureEnd(device); }
#endif

 private:
  static c10::DeviceIndex current_device() {
    c10::DeviceIndex current = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&current));
    return current;
  }

  // Serve a request. `stream_now` returns its stream, `ask` requests a block from the allocator
  // beneath. `own` returns a block of pgmo in the form that the caller needs. `track` reports a
  // block of the allocator beneath to the engine; its last argument is the address expected in a
  // gap, or null.
  template <typename StreamNow, typename Ask, typename Own, typename Track>
  std::invoke_result_t<Ask> serve(int index, size_t bytes, StreamNow&& stream_now, Ask&& ask,
                                  Own&& own, Track&& track) const {
    Device* const device = known_device(index);
    if (device == nullptr || bytes == 0) return ask();
    const cudaStream_t stream = stream_now();
    if (const auto pool = device->pools.claim(stream)) [[unlikely]] {
      if (void* block = pool_block(*device, *pool, bytes, stream)) return own(*device, block);
      return ask_within(*device, upstream_, *pool, ask);
    }
    if (!device->active() && !device->paged()) return ask_upstream(*device, upstream_, ask);
    const auto number = device->streams.number_of(stream);
    if (!number) return ask_upstream(*device, upstream_, ask);
    const void* gap = nullptr;
    if (void* block = own_block(*device, bytes, *number, gap)) return own(*device, block);
    const bool active = device->active();
    auto block = ask_upstream(*device, upstream_, ask);
    if (active) track(*device, block, *number, gap);
    return block;
  }

  // Return the device. Return nullptr if pgmo does not support the index, while torch does not
  // cache blocks, or if no session has begun on the device and no pages serve it.
  static Device* known_device(int index) {
    Device* const device = device_or_null(index);
    if (device == nullptr) return nullptr;
    if (!caching.load(std::memory_order_relaxed)) [[unlikely]]
      return nullptr;
    if (pages_everywhere.load(std::memory_order_relaxed) && !device->paged()) [[unlikely]]
      begin_pages(*device);
    return device->connected() || device->paged() ? device : nullptr;
  }

  // Prepare the pool of a capture that begins. Return true if this call has created the pool in
  // torch's allocator, with segments of pgmo. The creation counts as a user of the pool, which the
  // caller must release. Throws torch's out-of-memory error.
  bool begin_graph(c10::DeviceIndex index, c10::cuda::MempoolId_t pool);

  // Return a slot or a block of a window, or nullptr if the allocator beneath must serve the
  // request. If `gap` is set, that allocator should place the block there (splits.hpp).
  void* own_block(Device& device, size_t bytes, uint32_t stream, const void*& gap) const {
    void* block = find_own_block(device, bytes, stream, gap);
    if (device.peak_unconfirmed()) [[unlikely]]
      confirm_peak(device, upstream_);
    return block;
  }

  void* find_own_block(Device& device, size_t bytes, uint32_t stream, const void*& gap) const {
    if (Trace::displaced()) [[unlikely]]
      Trace::get().resume();
    const bool active = device.active();
    if (active || device.deferred.any_waiting()) [[likely]] {
      if (void* slot = slot_for(device, bytes, stream)) return slot;
    }
    if (!device.paged()) return nullptr;
    if (active && device.splits.any()) {
      gap = device.splits.expected(bytes, stream);
      if (gap != nullptr) return nullptr;
    }
    void* block = paged_block(device, bytes, stream);
    if (block != nullptr && active) (void)api->adopt(device.engine, block, bytes, stream, 0);
    return block;
  }

  // Return a block of a window, or nullptr if the allocator beneath must serve the request. Throws
  // torch's out-of-memory error if no page is available and the session has a limit on pages.
  void* paged_block(Device& device, size_t bytes, uint32_t stream, uint64_t pool = 0) const {
    void* block = block_for(device, bytes, stream, pool);
    const bool limited = device.limit.load(std::memory_order_relaxed) != ~uint64_t{0};
    if (block == nullptr && limited && !device.pools.any() && await_held_errors()) {
      block = block_for(device, bytes, stream, pool);
    }
    if (block == nullptr) {
      if (limited) throw_beyond_limit(device, bytes);
      (void)share_fraction(device, upstream_);
    }
    return block;
  }

  // Return a block in a window of an active pool; nullptr if the allocator beneath must serve.
  void* pool_block(Device& device, const ActivePools::Claim& claim, size_t bytes,
                   cudaStream_t stream) const {
    const bool served = claim.kind == ActivePools::Kind::kServed && device.paged();
    if (!served || is_capturing(stream)) return nullptr;
    const auto number = device.streams.number_of(stream);
    if (!number) return nullptr;
    void* block = paged_block(device, bytes, *number, claim.pool.second);
    if (device.peak_unconfirmed()) confirm_peak(device, upstream_);
    return block;
  }

  // Return whether the block lies in an arena or in pages.
  static bool is_own(const Device& device, const void* block) {
    return device.any_engine([&](pgmo_engine* engine) { return api->owns(engine, block) != 0; }) ||
           (device.pages() != nullptr && pages_api->owns(device.pages(), block));
  }

  // Empty the cache of the model of plain PyTorch, and release idle pages to the driver. As in
  // torch's own allocator, no page is released while a pool is active.
  static void give_pages_back() {
    for (Device& device : devices()) device.baseline.empty_cache();
    for (Device& device : devices()) {
      if (device.pages() == nullptr || device.pools.any_active()) continue;
      synchronize(device);
      (void)pages_api->give_back(device.pages(), ~uint64_t{0});
    }
  }

  static void* slot_for(Device& device, size_t bytes, uint32_t stream) {
    if (device.deferred.any_waiting()) [[unlikely]]
      finish_deferred(device);
    if (!device.active()) return nullptr;
    void* slot = api->allocate(device.engine, bytes, stream);
    if (slot != nullptr) report_allocation(device, slot, bytes, stream);
    return slot;
  }

  c10::DeleterFnPtr deleter(int device) const { return kDeleters[index_ * kMostDevices + device]; }

  static void refuse_slot(const void* block) {
    for (const Device& device : devices()) {
      TORCH_CHECK(!is_own(device, block),
                  "this tensor lies in pgmo's arena, which other processes cannot share; share a "
                  "copy made inside `with session.pause():`, as in tensor.clone()");
    }
  }

  CUDAAllocator* upstream_;
  c10::DeleterFnPtr upstream_deleter_;
  int index_;
};

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
