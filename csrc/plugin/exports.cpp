// The plug-in's C functions, for torch.cuda.memory.CUDAPluggableAllocator and for
// pgmo/allocator/torch_plugin.py.
//
//     torch ──▶ pgmo_plugin_alloc, _free and the hooks ──▶ Device ──▶ engine, or the driver
//
// They are part of the Python module pgmo._core, so nothing is compiled where they are used, and
// neither torch nor CUDA is needed to build them. None calls Python: torch holds the GIL in some of
// the calls and not in others.

#include <cstdio>
#include <exception>
#include <functional>
#include <utility>

#include "plugin/device.hpp"

#define PGMO_EXPORT __attribute__((visibility("default")))

namespace {

using pgmo::plugin::Device;
using pgmo::plugin::device;
using pgmo::plugin::device_if_used;
using pgmo::plugin::GraphPools;
using pgmo::plugin::Stream;

// Set when torch starts CUDA with this allocator: the one sign that it is torch's current one.
std::atomic<bool> started{false};

// Runs the body; what it throws becomes a message, for Python cannot catch it.
template <typename Body>
int guarded(char* message, size_t capacity, Body&& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::snprintf(message, capacity, "%s", error.what());
  }
  return 1;
}

}  // namespace

extern "C" {

// --- what torch calls; errors are exceptions, which torch makes RuntimeErrors of -----------------

PGMO_EXPORT void* pgmo_plugin_alloc(size_t bytes, int ordinal, Stream stream) {
  return device(ordinal).allocate(bytes, stream);
}

PGMO_EXPORT void pgmo_plugin_free(void* pointer, size_t bytes, int ordinal, Stream stream) {
  Device* owner = device_if_used(ordinal);
  if (pointer != nullptr && owner != nullptr) owner->free({pointer, bytes, stream});
}

// Torch calls it with the number of devices when it starts CUDA, so a missing driver shows here.
PGMO_EXPORT void pgmo_plugin_init(int devices) {
  if (devices <= 0) return;
  (void)pgmo::plugin::driver();
  started.store(true, std::memory_order_release);
}

// torch.cuda.empty_cache()
PGMO_EXPORT void pgmo_plugin_reset() {
  pgmo::plugin::for_each_device([](Device& one) { one.empty_cache(); });
}

PGMO_EXPORT void pgmo_plugin_memory_fraction(double fraction, int ordinal) {
  device(ordinal).memory().set_fraction(fraction);
}

// The start and the size of the allocation that a pointer lies in. The driver knows no slots: for
// one it is the whole arena.
PGMO_EXPORT void* pgmo_plugin_base(void* pointer, size_t* bytes) {
  void* base = pointer;
  size_t found = 0;
  pgmo::plugin::for_each_device([&](Device& one) {
    if (found == 0) base = one.memory().base_of(pointer, &found);
  });
  if (bytes != nullptr) *bytes = found;
  return base;
}

PGMO_EXPORT void pgmo_plugin_record_stream(void* pointer, Stream stream) {
  if (pointer != nullptr) pgmo::plugin::stream_uses().add(pointer, stream);
}

PGMO_EXPORT void pgmo_plugin_begin_pool(int ordinal, GraphPools::Id id, GraphPools::Filter filter) {
  device(ordinal).pools().begin(id, std::move(filter));
}

PGMO_EXPORT void pgmo_plugin_end_pool(int ordinal, GraphPools::Id id) {
  device(ordinal).pools().end(id);
}

PGMO_EXPORT void pgmo_plugin_release_pool(int ordinal, GraphPools::Id id) {
  device(ordinal).release_pool(id);
}

// --- what torch_plugin.py calls; with `message`: 0, or 1 and the reason in it --------------------

// Whether torch has started CUDA with this allocator.
PGMO_EXPORT int pgmo_plugin_started() {
  return started.load(std::memory_order_acquire);
}

PGMO_EXPORT int pgmo_plugin_connect(int ordinal, const pgmo_engine_api* api, pgmo_engine* engine,
                                    char* message, size_t capacity) {
  return guarded(message, capacity, [&] { device(ordinal).connect(api, engine); });
}

PGMO_EXPORT int pgmo_plugin_take_arena(int ordinal, uint64_t stream, size_t bytes, pgmo_arena* out,
                                       char* message, size_t capacity) {
  return guarded(message, capacity, [&] { *out = device(ordinal).take_arena(stream, bytes); });
}

PGMO_EXPORT int pgmo_plugin_take_region(int ordinal, size_t bytes, pgmo_arena* out, char* message,
                                        size_t capacity) {
  return guarded(message, capacity, [&] { *out = device(ordinal).take_region(bytes); });
}

PGMO_EXPORT int pgmo_plugin_knows_stream(int ordinal, uint64_t stream) {
  Device* used = device_if_used(ordinal);
  return stream == 0 || (used != nullptr && used->streams().stream(stream).has_value());
}

// Finishes the frees whose other streams are done; returns how many still wait.
PGMO_EXPORT int pgmo_plugin_poll(int ordinal) {
  Device* used = device_if_used(ordinal);
  if (used == nullptr) return 0;
  used->poll();
  return static_cast<int>(used->deferred());
}

PGMO_EXPORT int pgmo_plugin_empty_cache(int ordinal) {
  if (Device* used = device_if_used(ordinal)) used->empty_cache();
  return 0;
}

// 1 once an allocation pool has been begun on the device.
PGMO_EXPORT int pgmo_plugin_captured(int ordinal) {
  Device* used = device_if_used(ordinal);
  return used != nullptr && used->pools().ever_used();
}

// Appended to the text of later out-of-memory errors.
PGMO_EXPORT int pgmo_plugin_set_advice(int ordinal, const char* text, char* message,
                                       size_t capacity) {
  return guarded(message, capacity, [&] { device(ordinal).set_advice(text); });
}

// Bytes of the driver's blocks: stream-ordered ones, arenas included, and those of captured graphs,
// in use or kept for reuse.
PGMO_EXPORT int pgmo_plugin_usage(int ordinal, uint64_t* ordered, uint64_t* graphs) {
  Device* used = device_if_used(ordinal);
  *ordered = used != nullptr ? used->memory().ordered_bytes() : 0;
  *graphs = used != nullptr ? used->graph_bytes() : 0;
  return 0;
}

}  // extern "C"
