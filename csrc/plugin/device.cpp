#include "plugin/device.hpp"

#include <array>
#include <memory>
#include <optional>
#include <stdexcept>

#include "plugin/out_of_memory.hpp"

namespace pgmo::plugin {

void* Device::allocate(std::size_t bytes, Stream stream) {
  if (bytes == 0) return nullptr;  // torch keeps blocks by address, so this must not be one
  poll();
  if (active_pools.load(std::memory_order_acquire) != 0) {
    if (const auto pool = pools_.accepting(stream)) return allocate_in_pool(*pool, bytes, stream);
  }
  const std::optional<std::uint64_t> number = streams_.number(stream);
  const Connection* connection = connection_.load(std::memory_order_acquire);
  const bool engaged =
      connection != nullptr && number && __atomic_load_n(connection->mode, __ATOMIC_RELAXED) != 0;
  if (!engaged) return allocate_ordered(bytes, stream);
  if (void* slot = connection->api->allocate(connection->engine, bytes, *number)) return slot;
  void* pointer = allocate_ordered(bytes, stream);
  (void)connection->api->adopt(connection->engine, pointer, bytes, *number);
  return pointer;
}

void Device::free(const Block& block) noexcept {
  std::vector<Stream> others = uses_.take(block.pointer, block.stream);
  const GraphPools::Freed freed = pools_.free(block.pointer, !others.empty());
  if (freed.is_ours) {
    if (freed.to_driver) memory_.give_plain(block.pointer, freed.bytes);
    return;
  }
  const Connection* connection = connection_.load(std::memory_order_acquire);
  bool is_slot = false;
  if (connection != nullptr) {
    for (const Stream other : others) {
      const std::uint64_t number = streams_.number(other).value_or(StreamNumbers::kUnnumbered);
      is_slot |= connection->api->shared(connection->engine, block.pointer, number) == PGMO_SLOT;
    }
    if (!is_slot && connection->api->release(connection->engine, block.pointer) == PGMO_SLOT) {
      return;
    }
  }
  if (!others.empty() && deferred_.add(block, is_slot, std::move(others))) return;
  finish(block, is_slot);
}

// The last part of a free, when no other stream uses the block any more.
void Device::finish(const Block& block, bool is_slot) noexcept {
  if (!is_slot) {
    memory_.give(block.pointer, block.bytes, block.stream);
    return;
  }
  const Connection* connection = connection_.load(std::memory_order_acquire);
  (void)connection->api->release(connection->engine, block.pointer);
}

void Device::poll() noexcept {
  memory_.give_parked();
  for (const DeferredFrees::Waiting& done : deferred_.poll()) finish(done.block, done.is_slot);
}

void* Device::allocate_ordered(std::size_t bytes, Stream stream, bool may_yield) {
  void* pointer = memory_.take(bytes, stream);
  if (pointer == nullptr && make_room(may_yield)) pointer = memory_.take(bytes, stream);
  if (pointer == nullptr) throw_out_of_memory(bytes);
  return pointer;
}

void* Device::allocate_plain(std::size_t bytes, bool may_yield) {
  void* pointer = memory_.take_plain(bytes);
  if (pointer == nullptr && make_room(may_yield)) pointer = memory_.take_plain(bytes);
  if (pointer == nullptr) throw_out_of_memory(bytes);
  return pointer;
}

void* Device::allocate_in_pool(GraphPools::Id id, std::size_t bytes, Stream stream) {
  if (void* pointer = pools_.reuse(id, bytes, stream)) return pointer;
  void* pointer = allocate_plain(bytes);
  try {
    pools_.add(id, {pointer, bytes, stream});
  } catch (...) {
    memory_.give_plain(pointer, bytes);
    throw;
  }
  return pointer;
}

// Waits for the streams that frees wait for, and has an idle arena given back. False when there is
// neither, or a capture forbids it. One arena is no reason to give up another.
bool Device::make_room(bool may_yield) noexcept {
  if (active_pools.load(std::memory_order_acquire) != 0) return false;
  const Connection* connection = connection_.load(std::memory_order_acquire);
  const bool waited = deferred_.count() != 0;
  const bool yielded =
      may_yield && connection != nullptr && connection->api->yield_idle(connection->engine);
  if (waited || yielded) {
    memory_.synchronize();
    poll();
  }
  return waited || yielded;
}

void Device::connect(const pgmo_engine_api* api, pgmo_engine* engine) {
  if (api->version != PGMO_ENGINE_API_VERSION || api->size != sizeof(pgmo_engine_api)) {
    throw std::runtime_error("the plug-in and the engine are of different versions of pgmo");
  }
  memory_.open();
  const std::lock_guard guard(rare_);
  const Connection* before = connection_.load(std::memory_order_relaxed);
  if (before == nullptr) {
    connection_.store(new Connection{api, engine, api->mode(engine)}, std::memory_order_release);
  } else if (before->engine != engine) {
    throw std::runtime_error("the plug-in serves another engine on this device already");
  }
}

pgmo_arena Device::take_arena(std::uint64_t number, std::size_t bytes) {
  const std::optional<Stream> stream = streams_.stream(number);
  if (!stream) {
    throw std::runtime_error("no request has used stream " + std::to_string(number) +
                             " so far, so it has no arena");
  }
  struct Held {
    Device* device;
    Block block;
  };
  auto held = std::make_unique<Held>(Held{this, {nullptr, bytes, *stream}});
  held->block.pointer = allocate_ordered(bytes, *stream, /*may_yield=*/false);
  pgmo_arena arena{.base = held->block.pointer,
                   .bytes = bytes,
                   .give_back =
                       [](void* context) {
                         const std::unique_ptr<Held> mine(static_cast<Held*>(context));
                         mine->device->finish(mine->block, /*is_slot=*/false);
                       },
                   .context = held.get()};
  held.release();
  return arena;
}

pgmo_arena Device::take_region(std::size_t bytes) {
  struct Held {
    Device* device;
    void* pointer;
    std::size_t bytes;
  };
  auto held = std::make_unique<Held>(Held{this, nullptr, bytes});
  held->pointer = allocate_plain(bytes, /*may_yield=*/false);
  region_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  pgmo_arena region{.base = held->pointer,
                    .bytes = bytes,
                    .give_back =
                        [](void* context) {
                          const std::unique_ptr<Held> mine(static_cast<Held*>(context));
                          mine->device->memory_.give_plain(mine->pointer, mine->bytes);
                          mine->device->region_bytes_.fetch_sub(mine->bytes,
                                                                std::memory_order_relaxed);
                        },
                    .context = held.get()};
  held.release();
  return region;
}

void Device::release_pool(GraphPools::Id id) {
  for (const Block& block : pools_.release(id)) memory_.give_plain(block.pointer, block.bytes);
}

void Device::empty_cache() noexcept {
  memory_.empty_cache();
  if (active_pools.load(std::memory_order_acquire) != 0 || deferred_.count() == 0) return;
  poll();  // the device has been waited for, so all are done, and can be returned, too
  memory_.empty_cache();
}

void Device::set_advice(const char* text) {
  const std::lock_guard guard(rare_);
  advice_ = text;
}

void Device::throw_out_of_memory(std::size_t bytes) {
  std::optional<pgmo_engine_statistics> engine;
  if (const Connection* connection = connection_.load(std::memory_order_acquire)) {
    connection->api->statistics(connection->engine, &engine.emplace());
  }
  const std::lock_guard guard(rare_);
  throw OutOfMemory(
      describe_out_of_memory(memory_, bytes, graph_bytes(), engine ? &*engine : nullptr, advice_));
}

namespace {

std::array<std::atomic<Device*>, kMostDevices> devices{};
std::mutex making;

}  // namespace

Device& device(int ordinal) {
  if (Device* used = device_if_used(ordinal)) return *used;
  if (ordinal < 0 || ordinal >= kMostDevices) {
    throw std::runtime_error("pgmo: there is no CUDA device " + std::to_string(ordinal));
  }
  const std::lock_guard guard(making);
  std::atomic<Device*>& place = devices[static_cast<std::size_t>(ordinal)];
  if (place.load(std::memory_order_relaxed) == nullptr) {
    place.store(new Device(ordinal, stream_uses()), std::memory_order_release);
  }
  return *place.load(std::memory_order_relaxed);
}

Device* device_if_used(int ordinal) noexcept {
  if (ordinal < 0 || ordinal >= kMostDevices) return nullptr;
  return devices[static_cast<std::size_t>(ordinal)].load(std::memory_order_acquire);
}

StreamUses& stream_uses() noexcept {
  static StreamUses* const uses = new StreamUses;
  return *uses;
}

}  // namespace pgmo::plugin
