// Pools of graphs on each device: the driver functions for their pages, and their captures and
// replays as torch and Python report them.
//
//     Python announces a capture ──▶ beginAllocateToPool: a new pool gets segments of pgmo
//                                    endAllocateToPool:   pgmo reads the pool's live blocks
//     Python is about to replay  ──▶ before_replay ──▶ the launch ──▶ after_replay
//
// Torch's allocator serves the requests of a pool, as without pgmo. Only the pool's segments are
// pgmo's. pgmo does not see the replays of a graph whose capture was not announced. So the pool of
// that graph shares no page from the capture on.
//
// This file is part of the translation unit torch_cuda.cpp.

#pragma once

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "adapters/cuda/device.hpp"
#include "adapters/cuda/graphs/chains.hpp"
#include "adapters/cuda/pages/windows.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

namespace graphs = ::pgmo::graphs;

// Number of the graph whose capture this thread is about to begin. 0: no graph, or a graph whose
// replays are not reported.
thread_local uint64_t announced_graph = 0;

// Driver functions of one device. A page is created without the callbacks of the page space: they
// may call torch's allocator, which holds its lock while it requests a segment.
class GraphDevice final : public graphs::Driver {
 public:
  explicit GraphDevice(Device& device) : device_(device), calls_(device.page_device->table()) {}

  graphs::Address reserve(size_t bytes) noexcept override {
    return calls_.reserve(calls_.context, bytes);
  }
  bool create(graphs::Handle& page) noexcept override {
    if (!device_.page_device->create_for_segment(&page)) return false;
    device_.baseline.took(static_cast<int64_t>(device_.page_device->page()));
    return true;
  }
  void release(graphs::Handle page) noexcept override {
    calls_.release(calls_.context, page);
    device_.baseline.took(-static_cast<int64_t>(device_.page_device->page()));
  }
  bool map(graphs::Address address, graphs::Handle page) noexcept override {
    return calls_.map(calls_.context, address, page) != 0;
  }
  bool grant(graphs::Address address, size_t bytes) noexcept override {
    return calls_.grant(calls_.context, address, bytes) != 0;
  }
  void unmap(graphs::Address address, size_t bytes) noexcept override {
    calls_.unmap(calls_.context, address, bytes);
  }

  bool copy(graphs::Address to, graphs::Address from, size_t bytes) noexcept override {
    return attempt([&] {
      if (stream_ == nullptr) {
        C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
      }
      C10_CUDA_CHECK(cudaMemcpyAsync(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from),
                                     bytes, cudaMemcpyDeviceToDevice, stream_));
      C10_CUDA_CHECK(cudaStreamSynchronize(stream_));
    });
  }

  bool settle(bool whole) noexcept override {
    const bool capturing = device_.pools.any();
    if (capturing && whole) return false;
    return attempt([&] {
      if (!capturing) {
        C10_CUDA_CHECK(cudaDeviceSynchronize());
        return;
      }
      for (const cudaStream_t stream : device_.streams.all()) {
        if (!is_capturing(stream)) C10_CUDA_CHECK(cudaStreamSynchronize(stream));
      }
    });
  }

  graphs::Event record(graphs::Stream stream) noexcept override {
    return device_.page_device->record_on(handle(stream));
  }
  bool completed(graphs::Event event) noexcept override {
    return calls_.completed(calls_.context, event) != 0;
  }
  void discard(graphs::Event event) noexcept override { calls_.discard(calls_.context, event); }
  bool wait(graphs::Stream stream, graphs::Event event) noexcept override {
    return device_.page_device->wait_on(handle(stream), event) != 0;
  }

 private:
  static cudaStream_t handle(graphs::Stream stream) {
    return reinterpret_cast<cudaStream_t>(stream);  // NOLINT: a handle is an address
  }

  // Run the body with the device current, and outside of any capture. Return false if it throws.
  template <typename Body>
  bool attempt(Body&& body) noexcept {
    try {
      const OnDevice on(device_.index);
      const BesideCaptures beside;
      body();
      return true;
    } catch (const std::exception&) {
      (void)cudaGetLastError();
      return false;
    }
  }

  Device& device_;
  const pgmo_pages_device calls_;
  cudaStream_t stream_ = nullptr;  // for copies; created at the first copy
};

// Chains of one device, with their driver.
struct DeviceGraphs {
  explicit DeviceGraphs(Device& device)
      : driver(device), chains(driver, device.page_device->page()) {}

  GraphDevice driver;
  graphs::Chains chains;
};

// Graphs of each device; null until the first announced capture on the device. Never destroyed.
std::array<std::atomic<DeviceGraphs*>, kMostDevices> all_graphs{};

// Return the chains of a device; null if the device has none.
graphs::Chains* chains_of(int device) {
  if (device < 0 || device >= kMostDevices) return nullptr;
  DeviceGraphs* const known = all_graphs[static_cast<size_t>(device)].load();
  return known == nullptr ? nullptr : &known->chains;
}

// Return the chains of a device, created if there are none. Return null if the device has no pages
// that can be mapped twice.
graphs::Chains* open_graphs(Device& device, CUDAAllocator* upstream) {
  const auto index = static_cast<c10::DeviceIndex>(device.index);
  const int64_t peak = upstream->getDeviceStats(index).reserved_bytes[0].peak;
  auto& entry = all_graphs[static_cast<size_t>(device.index)];
  const std::lock_guard guard(device.mutex);
  if (entry.load() == nullptr && device.pages() != nullptr && device.aliases) {
    auto* const made = new DeviceGraphs(device);
    device.peak_before_graphs.store(peak);
    device.saved_in_graphs.store(&made->chains.saved());
    entry.store(made);
  }
  return chains_of(device.index);
}

uint64_t lend_pages_of_graphs(const Device& device) {
  graphs::Chains* const chains = chains_of(device.index);
  return chains == nullptr ? 0 : chains->lend();
}

bool is_of_graphs(const TraceEntry& entry) {
  graphs::Chains* const chains = chains_of(entry.device_);
  return chains != nullptr && chains->owns(static_cast<graphs::Address>(entry.addr_));
}

// Return the pool's blocks that are live, or whose free waits for another stream. If torch's
// snapshot takes no pool, return these blocks of all pools.
template <typename Allocator>
std::vector<graphs::LiveBlock> living_in(Allocator* upstream, c10::cuda::MempoolId_t pool) {
  const SnapshotInfo info = [&] {
    if constexpr (requires { upstream->snapshot(pool, false); }) {
      return upstream->snapshot(pool, false);
    } else if constexpr (requires { upstream->snapshot(pool); }) {
      return upstream->snapshot(pool);
    } else {
      return upstream->snapshot();
    }
  }();
  std::vector<graphs::LiveBlock> all;
  for (const auto& segment : info.segments) {
    auto address = static_cast<graphs::Address>(segment.address);
    for (const auto& block : segment.blocks) {
      if (block.allocated || block.active) all.push_back({address, block.size});
      address += block.size;
    }
  }
  return all;
}

// Return the number of users of a pool; nullopt if torch knows no pool of this id.
template <typename Allocator>
std::optional<int> users_of(Allocator* upstream, c10::DeviceIndex device,
                            c10::cuda::MempoolId_t pool) {
  if constexpr (requires { upstream->getPoolUseCount(device, pool); }) {
    try {
      return upstream->getPoolUseCount(device, pool);
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }
  return 1;  // this version of torch does not report the number
}

// Record that a user has released the pool. After the last user, no graph uses the pool any more.
void note_graph_release(CUDAAllocator* upstream, c10::DeviceIndex device,
                        c10::cuda::MempoolId_t pool) {
  graphs::Chains* const chains = chains_of(device);
  if (chains == nullptr || !chains->knows(pool)) return;
  if (users_of(upstream, device, pool).value_or(0) == 0) chains->release(pool);
}

// End the capture into a pool that shares pages. Throws torch's out-of-memory error.
void end_graph(CUDAAllocator* upstream, int device, c10::cuda::MempoolId_t pool) {
  graphs::Chains* const chains = chains_of(device);
  if (chains == nullptr || !chains->knows(pool)) return;
  TORCH_CHECK_WITH(OutOfMemoryError, chains->end(pool, living_in(upstream, pool)),
                   "CUDA out of memory. The captured graph needs pages of its own");
}

// Grant all peers of the device access to all pages. Called after a peer was added.
void grant_again(const Device& device) {
  pages_api->grant_again(device.pages());
  if (graphs::Chains* const chains = chains_of(device.index)) chains->grant_again();
}

// Call `attempt` up to three times, until it returns true, and free memory in between. During a
// capture, call it only once. Return false if all attempts fail.
template <typename Attempt>
bool with_room(Device& device, CUDAAllocator* upstream, Attempt&& attempt) {
  if (attempt()) return true;
  if (device.pools.any()) return false;
  synchronize(device);
  (void)pages_api->give_back(device.pages(), ~uint64_t{0});
  if (attempt()) return true;
  empty_cache(upstream);
  return attempt();
}

// Prepare the replay of a graph on the current stream. Throws torch's out-of-memory error.
void before_replay(Device& device, CUDAAllocator* upstream, uint64_t graph) {
  graphs::Chains* const chains = chains_of(device.index);
  if (chains == nullptr) return;
  const auto index = static_cast<c10::DeviceIndex>(device.index);
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(index).stream();
  const int64_t saved = device.saved();
  const bool ready = with_room(device, upstream, [&] {
    // If the launch is captured into another graph, later launches of this graph are not reported.
    if (is_capturing(stream) && !chains->keep_apart(graph)) return false;
    return chains->before_replay(graph, reinterpret_cast<graphs::Stream>(stream));
  });
  if (device.saved() != saved) confirm_peak(device, upstream);
  TORCH_CHECK_WITH(
      OutOfMemoryError, ready,
      "CUDA out of memory. Before its replay, this graph needs its lent pages back, or graphs that "
      "share pages need pages of their own");
}

void after_replay(const Device& device, uint64_t graph) {
  graphs::Chains* const chains = chains_of(device.index);
  if (chains == nullptr) return;
  const auto index = static_cast<c10::DeviceIndex>(device.index);
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(index).stream();
  chains->after_replay(graph, reinterpret_cast<graphs::Stream>(stream));
}

// Give the graph's pool pages of its own. Throws torch's out-of-memory error.
void keep_apart(Device& device, CUDAAllocator* upstream, uint64_t graph) {
  graphs::Chains* const chains = chains_of(device.index);
  if (chains == nullptr) return;
  const bool apart = with_room(device, upstream, [&] { return chains->keep_apart(graph); });
  TORCH_CHECK_WITH(OutOfMemoryError, apart,
                   "CUDA out of memory. pgmo cannot see the launches of this graph, which "
                   "therefore needs pages of its own");
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
