// One device: what happens to a request and to a free.
//
//     request ─┬─ a pool takes the stream ──▶ its free blocks, or cuMemAlloc      (graphs)
//              ├─ an engine is connected ───▶ a slot of its arena                 (a hit)
//              └─ otherwise ────────────────▶ cuMemAllocAsync                     (a miss)
//
//     free ────┬─ a pool's ─────────────────▶ that pool
//              ├─ used on other streams ────▶ waits until they are done, then:
//              ├─ a slot ───────────────────▶ the engine
//              └─ otherwise ────────────────▶ cuMemFreeAsync

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "engine/pgmo_engine.h"
#include "plugin/deferred_frees.hpp"
#include "plugin/device_memory.hpp"
#include "plugin/graph_pools.hpp"
#include "plugin/stream_numbers.hpp"

namespace pgmo::plugin {

class Device {
 public:
  Device(int ordinal, StreamUses& uses) : memory_(ordinal), deferred_(memory_), uses_(uses) {}

  // Throws std::runtime_error: out of memory in torch's words, or what the driver says.
  void* allocate(std::size_t bytes, Stream stream);
  void free(const Block& block) noexcept;

  // Frees what has waited for other streams or for the end of a capture, if that has come.
  void poll() noexcept;

  // Routes requests to an engine from now on. Throws std::runtime_error when it is another one than
  // before: blocks of the first may still live.
  void connect(const pgmo_engine_api* api, pgmo_engine* engine);

  // One block for an arena whose slots are used on the stream with this number. Throws like
  // `allocate`, and when no request has used such a stream.
  pgmo_arena take_arena(std::uint64_t stream, std::size_t bytes);

  // One block for a region: its blocks live long, and any stream may use them from the start. So it
  // must not be memory that was freed on some stream whose work is not done yet.
  pgmo_arena take_region(std::size_t bytes);

  void release_pool(GraphPools::Id id);
  void empty_cache() noexcept;
  void set_advice(const char* text);

  DeviceMemory& memory() noexcept { return memory_; }
  GraphPools& pools() noexcept { return pools_; }
  StreamNumbers& streams() noexcept { return streams_; }
  std::size_t deferred() const noexcept { return deferred_.count(); }

  // Of captured graphs, in use or kept for reuse.
  std::size_t graph_bytes() const noexcept {
    return memory_.plain_bytes() - region_bytes_.load(std::memory_order_relaxed);
  }

 private:
  struct Connection {
    const pgmo_engine_api* api;
    pgmo_engine* engine;
    const std::uint32_t* mode;
  };

  void* allocate_ordered(std::size_t bytes, Stream stream, bool may_yield = true);
  void* allocate_plain(std::size_t bytes, bool may_yield = true);
  void* allocate_in_pool(GraphPools::Id id, std::size_t bytes, Stream stream);
  void finish(const Block& block, bool is_slot) noexcept;
  bool make_room(bool may_yield) noexcept;
  [[noreturn]] void throw_out_of_memory(std::size_t bytes);

  DeviceMemory memory_;
  DeferredFrees deferred_;
  GraphPools pools_;
  StreamNumbers streams_;
  StreamUses& uses_;
  std::atomic<std::size_t> region_bytes_{0};
  std::atomic<const Connection*> connection_{nullptr};  // set once
  std::mutex rare_;                                     // guards connecting, and the next
  std::string advice_;
};

// The device with this ordinal; made at first use and never destroyed, for tensors outlive all.
// Throws std::runtime_error for an ordinal that no machine has.
Device& device(int ordinal);

// The same, or nullptr when nothing has asked for it yet.
Device* device_if_used(int ordinal) noexcept;

constexpr int kMostDevices = 64;

template <typename Visit>
void for_each_device(Visit&& visit) {
  for (int ordinal = 0; ordinal < kMostDevices; ++ordinal) {
    if (Device* used = device_if_used(ordinal)) visit(*used);
  }
}

StreamUses& stream_uses() noexcept;

}  // namespace pgmo::plugin
