// Adds pages to torch's memory snapshots: a run of mapped pages is shown as a segment.
//
//     pages     # # # # #        # #
//     live      ▓▓▓  ▓▓▓         ▓▓      blocks of windows, and slots
//     blocks    [   ][ ][   ]    [ ][ ]  of two segments: live blocks, and idle blocks between them
//
// This file is part of the translation unit torch_cuda.cpp.

#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "adapters/cuda/device.hpp"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// A run of mapped pages, or a live block.
struct Run {
  uintptr_t address;
  uint64_t bytes;
  uint32_t stream;
  uint64_t pool = 0;  // number of the user's pool; 0: none
};

// Return all live slots and live blocks of windows, sorted by address. Slots have stream 0 in this
// list, because their segment has the stream.
std::vector<Run> living_blocks(const Device& device) {
  std::vector<Run> all;
  pages_api->for_each(
      device.pages(),
      [](void* context, uintptr_t address, uint64_t bytes, uint32_t stream) {
        static_cast<std::vector<Run>*>(context)->push_back({address, bytes, stream});
      },
      &all);
  device.any_engine([&](pgmo_engine* engine) {
    api->for_each_slot(
        engine,
        [](void* context, uintptr_t address, uint64_t bytes) {
          static_cast<std::vector<Run>*>(context)->push_back({address, bytes, 0});
        },
        &all);
    return false;
  });
  std::sort(all.begin(), all.end(),
            [](const Run& one, const Run& other) { return one.address < other.address; });
  return all;
}

std::vector<Run> runs_of_pages(const Device& device) {
  std::vector<Run> all;
  pages_api->for_each_run(
      device.pages(),
      [](void* context, uintptr_t address, uint64_t bytes, uint32_t stream, uint64_t pool) {
        static_cast<std::vector<Run>*>(context)->push_back({address, bytes, stream, pool});
      },
      &all);
  return all;
}

void add_idle(SegmentInfo& segment, uint64_t bytes) {
  segment.blocks.emplace_back().size = bytes;
}

// Add a live block to a segment. If history knows the requested size, use that.
void add_block(SegmentInfo& segment, uintptr_t address, uint64_t bytes, uint64_t requested) {
  History::Known known = history().known(reinterpret_cast<void*>(address));
  if (known.bytes != 0) requested = known.bytes;
  auto& block = segment.blocks.emplace_back();
  block.size = bytes;
  block.requested_size = requested;
  block.allocated = block.active = true;
  block.context_when_allocated = std::move(known.context);
  segment.requested_size += requested;
  segment.allocated_size += bytes;
  segment.active_size += bytes;
}

// Return a run of pages as a segment, with live blocks and the idle gaps between them.
SegmentInfo segment_of(Device& device, const Run& run, const std::vector<Run>& living) {
  constexpr uint64_t kAlignment = 512;
  constexpr uint64_t kLarge = uint64_t{1} << 20;
  SegmentInfo segment;
  segment.device = static_cast<c10::DeviceIndex>(device.index);
  segment.address = run.address;
  segment.total_size = run.bytes;
  segment.stream = device.streams.handle(run.stream);
  segment.is_expandable = true;
  segment.owner_private_pool_id = {0, run.pool};
  uintptr_t at = run.address;
  const uintptr_t end = run.address + run.bytes;
  auto next =
      std::lower_bound(living.begin(), living.end(), run.address,
                       [](const Run& one, uintptr_t address) { return one.address < address; });
  for (; next != living.end() && next->address < end; ++next) {
    const uint64_t bytes = (next->bytes + kAlignment - 1) / kAlignment * kAlignment;
    // Skip the block if it does not fit, because pages have changed since the blocks were listed.
    if (next->address < at || end - next->address < bytes) continue;
    if (next->address > at) add_idle(segment, next->address - at);
    add_block(segment, next->address, bytes, next->bytes);
    segment.is_large = segment.is_large || bytes >= kLarge;
    at = next->address + bytes;
  }
  if (at < end) add_idle(segment, end - at);
  return segment;
}

// Return torch's snapshot with pages added. `more`: the pool, and whether to include traces, in
// versions of torch that pass these arguments. A snapshot of a single pool has only the segments of
// this pool, and no history of pgmo's blocks.
template <typename... More>
SnapshotInfo with_pages(SnapshotInfo info, const More&... more) {
  c10::cuda::MempoolId_t pool{0, 0};
  bool traces = true;
  const auto take = [&](const auto& one) {
    if constexpr (std::is_same_v<std::decay_t<decltype(one)>, bool>) {
      traces = one;
    } else {
      pool = one;
    }
  };
  (take(more), ...);
  const bool all = pool == c10::cuda::MempoolId_t{0, 0};
  for (Device& device : devices()) {
    if (device.pages() == nullptr && !device.connected()) continue;
    if (device.pages() != nullptr && (all || device.pools.serves(pool))) {
      const std::vector<Run> living = living_blocks(device);
      for (const Run& run : runs_of_pages(device)) {
        if (!all && run.pool != pool.second) continue;
        info.segments.push_back(segment_of(device, run, living));
      }
    }
    if (!all) continue;
    const auto index = static_cast<size_t>(device.index);
    if (traces && history().enabled() && index < info.device_traces.size()) {
      history().add_to(device.index, info.device_traces[index]);
    }
  }
  return info;
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
