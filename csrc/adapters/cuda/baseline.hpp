// Reports what happens on a device to the model of plain PyTorch (csrc/baseline).
//
//     slots, blocks of windows         ──▶ allocated, freed   reported by the adapter
//     blocks of the allocator beneath  ──▶ allocated, freed   reported by its trace
//     segments of that allocator, pages ─▶ took               bytes actually taken from the card
//
// The allocator beneath serves some private pools as it would without pgmo: pools of CUDA graphs,
// and some of MemPool. The bytes of these pools count on both sides: as reserved by plain PyTorch,
// and as taken. The model serves all other private pools: MemPools that pages serve, and graphs'
// pools with expandable segments of pgmo.
//
// Only device.hpp includes this file.

#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "adapters/cuda/deferred.hpp"
#include "adapters/cuda/pools/active.hpp"
#include "adapters/cuda/pools/torch_expandable.hpp"
#include "baseline/pgmo_baseline.h"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

const pgmo_baseline_api* baseline_api = nullptr;
pgmo_baseline_settings baseline_settings{};  // from the environment, as read by Python

// True while pgmo itself calls torch's allocator on this thread. Plain PyTorch would not make these
// calls, so the model ignores them.
thread_local bool in_pgmo_call = false;

// Scope in which this thread's calls of torch's allocator are pgmo's own.
class PgmoCallScope {
 public:
  PgmoCallScope() : before_(in_pgmo_call) { in_pgmo_call = true; }
  ~PgmoCallScope() { in_pgmo_call = before_; }
  PgmoCallScope(const PgmoCallScope&) = delete;
  PgmoCallScope& operator=(const PgmoCallScope&) = delete;

 private:
  const bool before_;
};

// Connection of one device to its model. Thread-safe.
class BaselineFeed {
 public:
  // Start the model; later calls have no effect. Memory that PyTorch's allocator has reserved by
  // then counts as reserved and as taken. Does nothing if the allocator beneath is not torch's
  // native allocator, or if the card's memory cannot be queried.
  void begin(int device, const ActivePools& pools, CUDAAllocator* upstream);

  // `allocated` records a block that pgmo has served, `freed` its free by the program. If other
  // streams use the block, the model delays the free, like PyTorch. `pool`: see pgmo_baseline.h.
  void allocated(void* block, size_t bytes, cudaStream_t stream, uint64_t pool) {
    pgmo_baseline* const model = model_.load(std::memory_order_acquire);
    if (model == nullptr) return;
    if (deferred_.any_waiting()) [[unlikely]]
      settle(model);
    baseline_api->allocated(model, key(block), static_cast<int64_t>(bytes), id(stream), pool, 0);
  }
  void freed(void* block) {
    pgmo_baseline* const model = model_.load(std::memory_order_acquire);
    if (model == nullptr) return;
    if (deferred_.is_noted(block)) [[unlikely]] {
      const uint64_t number = baseline_api->postponed(model, key(block));
      if (deferred_.defer(block, reinterpret_cast<void*>(number))) return;
      baseline_api->settled(model, number);
    }
    baseline_api->freed(model, key(block), 0);
  }

  // Record that another stream uses a block of pgmo. Throws std::bad_alloc.
  void used(void* block, c10::DeviceIndex device, cudaStream_t stream) {
    pgmo_baseline* const model = model_.load(std::memory_order_acquire);
    if (model != nullptr && baseline_api->is_of_other_stream(model, key(block), id(stream)) != 0) {
      deferred_.note(block, device, stream);
    }
  }

  // Add bytes taken from the card (negative: returned to it).
  void took(int64_t bytes) {
    if (pgmo_baseline* const model = model_.load()) baseline_api->took(model, bytes);
  }

  // Empty the model's cache, because the program empties torch's cache.
  void empty_cache() {
    pgmo_baseline* const model = model_.load();
    if (model != nullptr && !in_pgmo_call) baseline_api->empty_cache(model);
  }
  // Release the pool in the model, because the pool has no user any more.
  void release_pool(const ActivePools::Id& pool) {
    pgmo_baseline* const model = model_.load();
    if (model != nullptr) baseline_api->release_pool(model, number(pool));
  }
  void empty_pool(const ActivePools::Id& pool) {
    pgmo_baseline* const model = model_.load();
    if (model != nullptr) baseline_api->empty_pool(model, number(pool));
  }
  void set_fraction(double fraction) {
    if (pgmo_baseline* const model = model_.load()) baseline_api->set_fraction(model, fraction);
  }

  // Record an entry of the trace of PyTorch's allocator. Called under that allocator's lock.
  void traced(const TraceEntry& entry);

  // Count an out-of-memory error that the program gets.
  void raised() { ++errors_; }

  // `suspend` freezes the figures when the adapter is uninstalled. `resume` continues them when the
  // adapter is installed again; from then on they count as incomplete, because the adapter did not
  // see the requests in between.
  void suspend() {
    pgmo_baseline* const model = model_.load();
    if (model == nullptr || absent_) return;
    baseline_api->figures(model, &last_);
    absent_ = true;
  }
  void resume() {
    if (absent_.exchange(false)) misses_some_ = true;
  }

  std::mutex& mutex() { return deferred_.mutex(); }  // for forks

  // Stop the model in a forked child, which has no device. Requires the mutex.
  void become_child() {
    model_.store(nullptr);
    deferred_.forget();
  }

  // Copy the figures to `out`. Return false if there is no model.
  bool figures(pgmo_baseline_figures* out) const {
    pgmo_baseline* const model = model_.load();
    if (model == nullptr) return false;
    if (absent_) {
      *out = last_;
    } else {
      baseline_api->figures(model, out);
    }
    if (misses_some_) out->broken = 1;
    out->errors = errors_;
    return true;
  }

 private:
  static uintptr_t key(const void* block) { return reinterpret_cast<uintptr_t>(block); }
  static uint64_t id(const void* stream) { return reinterpret_cast<uintptr_t>(stream); }
  // Return the model's number of a pool. Torch's ids of pools are (0, n) or (n, 0).
  static uint64_t number(const ActivePools::Id& pool) {
    return pool.first == 0 ? pool.second : pool.first | (uint64_t{1} << 63);
  }

  // Free the blocks in the model whose delayed frees are due.
  void settle(pgmo_baseline* model) {
    try {
      for (void* number : deferred_.finished()) baseline_api->settled(model, key(number));
    } catch (const std::bad_alloc&) {
      // The host is out of memory: the next request tries again.
    }
  }

  // Return whether the entry belongs to a private pool. PyTorch before 2.9 does not name the pool
  // in a trace entry: return false, and count the figures as incomplete once a pool is active.
  template <typename Entry>
  bool is_private(const Entry& entry) {
    if constexpr (requires { entry.mempool_; }) {
      return entry.mempool_ != decltype(entry.mempool_){0, 0};
    } else {
      if (pools_ != nullptr && pools_->any_active()) misses_some_ = true;
      return false;
    }
  }

  // Return the model's number of an entry's private pool; 0 if the model does not serve the pool.
  template <typename Entry>
  static uint64_t modelled_pool(const Entry& entry) {
    if constexpr (requires { entry.mempool_; }) {
      const bool modelled = expandable_segments().chosen({entry.device_, entry.mempool_});
      return modelled ? number(entry.mempool_) : 0;
    } else {
      return 0;
    }
  }

  static pgmo_baseline_settings settings_of(const AllocatorConfigInfo& config);
  static void add(pgmo_baseline* model, const SegmentInfo& segment);

  std::atomic<pgmo_baseline*> model_{nullptr};
  std::atomic<bool> begun_{false};
  std::atomic<bool> misses_some_{false};  // whether some requests, or their pools, are unknown
  std::atomic<bool> absent_{false};       // whether the adapter is not installed
  pgmo_baseline_figures last_{};          // figures when the adapter was uninstalled
  std::atomic<int64_t> errors_{0};
  DeferredFrees deferred_;
  const ActivePools* pools_ = nullptr;  // pools of the device, not owned
};

// Return the device's feed; nullptr if its index is unsupported. Defined in device.hpp.
BaselineFeed* feed_of(int device);

// Return whether the entry is about a segment of graphs: GraphDevice calls `took` for its pages.
bool is_of_graphs(const TraceEntry& entry);

void BaselineFeed::traced(const TraceEntry& entry) {
  pgmo_baseline* const model = model_.load(std::memory_order_acquire);
  if (model == nullptr) return;
  const auto bytes = static_cast<int64_t>(entry.size_);
  const auto stream = id(entry.stream_);
  const bool in_pool = is_private(entry);
  const uint64_t modelled = in_pool ? modelled_pool(entry) : 0;
  const bool on_both_sides = in_pool && modelled == 0;
  switch (entry.action_) {
    case TraceEntry::ALLOC:
      if (on_both_sides) {
        baseline_api->private_blocks(model, bytes);
      } else if (!in_pgmo_call) {
        baseline_api->allocated(model, entry.addr_, bytes, stream, modelled, 1);
      }
      break;
    case TraceEntry::FREE_COMPLETED:
      if (on_both_sides) {
        baseline_api->private_blocks(model, -bytes);
      } else {
        baseline_api->freed(model, entry.addr_, 1);
      }
      break;
    case TraceEntry::SEGMENT_ALLOC:
    case TraceEntry::SEGMENT_MAP:
      if (!is_of_graphs(entry)) baseline_api->took(model, bytes);
      if (on_both_sides) baseline_api->private_segments(model, bytes);
      break;
    case TraceEntry::SEGMENT_FREE:
    case TraceEntry::SEGMENT_UNMAP:
      if (!is_of_graphs(entry)) baseline_api->took(model, -bytes);
      if (on_both_sides) baseline_api->private_segments(model, -bytes);
      break;
    case TraceEntry::OOM:
      if (!in_pool && !in_pgmo_call) baseline_api->failed(model, bytes, stream);
      break;
    default:
      break;
  }
}

// Return the settings from the environment, updated by torch's snapshot: the program may have
// changed settings since start-up.
pgmo_baseline_settings BaselineFeed::settings_of(const AllocatorConfigInfo& config) {
  pgmo_baseline_settings settings = baseline_settings;
  settings.expandable_segments = config.expandable_segments;
  settings.garbage_collection_threshold = config.garbage_collection_threshold;
  constexpr auto kMost = static_cast<size_t>(INT64_MAX);
  const bool splits_all = config.max_split_size >= kMost;
  settings.max_split_size = splits_all ? 0 : static_cast<int64_t>(config.max_split_size);
  return settings;
}

// Add a segment that exists when the model starts.
void BaselineFeed::add(pgmo_baseline* model, const SegmentInfo& segment) {
  std::vector<pgmo_baseline_piece> pieces;
  uintptr_t address = segment.address;
  int64_t requested = 0;
  for (const BlockInfo& block : segment.blocks) {
    const auto size = static_cast<int64_t>(block.size);
    const bool busy = block.allocated || block.active;
    pieces.push_back({address, size, static_cast<int64_t>(block.requested_size), busy});
    if (busy) requested += static_cast<int64_t>(block.requested_size);
    address += block.size;
  }
  if (segment.owner_private_pool_id != decltype(segment.owner_private_pool_id){0, 0}) {
    baseline_api->private_segments(model, static_cast<int64_t>(segment.total_size));
    baseline_api->private_blocks(model, requested);
    return;
  }
  baseline_api->add_segment(model, id(segment.stream), !segment.is_large, segment.is_expandable,
                            pieces.data(), pieces.size());
}

// Pass each trace entry of torch's allocator to the feed of its device from now on. Only the first
// call has an effect. Torch cannot detach a tracker.
void attach_trace(CUDAAllocator* upstream) {
  static std::once_flag attached;
  std::call_once(attached, [&] {
    upstream->attachAllocatorTraceTracker([](const TraceEntry& entry) {
      if (BaselineFeed* const feed = feed_of(entry.device_)) feed->traced(entry);
    });
  });
}

void BaselineFeed::begin(int device, const ActivePools& pools, CUDAAllocator* upstream) {
  if (baseline_api == nullptr || begun_.exchange(true) || upstream->name() != "native") return;
  pools_ = &pools;
  const OnDevice on(device);
  size_t available = 0, total = 0;
  if (cudaMemGetInfo(&available, &total) != cudaSuccess) {
    (void)cudaGetLastError();
    return;
  }
  attach_trace(upstream);
  const auto index = static_cast<c10::DeviceIndex>(device);
  const SnapshotInfo snapshot = upstream->snapshot();
  const int64_t held = upstream->getDeviceStats(index).reserved_bytes[0].current;
  const pgmo_baseline_settings settings = settings_of(snapshot.config_metadata);
  pgmo_baseline* const model = baseline_api->open(&settings, static_cast<int64_t>(available) + held,
                                                  static_cast<int64_t>(total));
  if (model == nullptr) return;
  const double fraction = upstream->getMemoryFraction(index);
  if (fraction < 1) baseline_api->set_fraction(model, fraction);
  for (const SegmentInfo& segment : snapshot.segments) {
    if (segment.device == index) add(model, segment);
  }
  baseline_api->took(model, held);
  model_.store(model, std::memory_order_release);
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
