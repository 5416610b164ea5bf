// Implementation of the C functions in pgmo_engine.h.

#include "engine/engine.hpp"

namespace pgmo {
namespace {

Engine* engine_of(pgmo_engine* handle) {
  return reinterpret_cast<Engine*>(handle);
}

void fill_statistics(pgmo_engine* handle, pgmo_engine_statistics* out) {
  const Statistics all = engine_of(handle)->statistics();
  *out = {.live_slot_bytes = static_cast<std::uint64_t>(all.slots.live),
          .live_fallback_bytes = static_cast<std::uint64_t>(all.fallback.live),
          .arena_bytes = static_cast<std::uint64_t>(all.arena_bytes),
          .paged_slots = all.paged_slots,
          .paged_slot_bytes = all.paged_slot_bytes};
}

constexpr pgmo_engine_api kApi = {
    .version = PGMO_ENGINE_API_VERSION,
    .size = sizeof(pgmo_engine_api),
    .mode = [](pgmo_engine* handle) { return engine_of(handle)->mode(); },
    .allocate = [](pgmo_engine* handle, std::size_t bytes,
                   std::uint64_t stream) { return engine_of(handle)->allocate(bytes, stream); },
    .adopt = [](pgmo_engine* handle, void* pointer, std::size_t bytes, std::uint64_t stream,
                int in_gap) -> int {
      return engine_of(handle)->adopt(pointer, bytes, stream, in_gap != 0);
    },
    .release = [](pgmo_engine* handle, void* pointer) -> int {
      return engine_of(handle)->release(pointer) ? PGMO_SLOT : PGMO_FOREIGN;
    },
    .owns = [](pgmo_engine* handle, const void* pointer) -> int {
      return engine_of(handle)->owns(pointer);
    },
    .shared = [](pgmo_engine* handle, void* pointer, std::uint64_t stream) -> int {
      return engine_of(handle)->shared(pointer, stream) ? PGMO_SLOT : PGMO_FOREIGN;
    },
    .ordered = [](pgmo_engine* handle, int what, std::uint64_t stream,
                  std::uint64_t event) { engine_of(handle)->ordered(what, stream, event); },
    .size_of = [](pgmo_engine* handle, const void* pointer) -> std::uint64_t {
      return static_cast<std::uint64_t>(engine_of(handle)->size_of(pointer));
    },
    .for_each_slot =
        [](pgmo_engine* handle, void (*visit)(void*, std::uintptr_t, std::uint64_t),
           void* context) {
          engine_of(handle)->for_each_slot([&](std::uintptr_t address, Bytes bytes) {
            visit(context, address, static_cast<std::uint64_t>(bytes));
          });
        },
    .yield_idle = [](pgmo_engine* handle) -> int { return engine_of(handle)->yield_idle(); },
    .statistics = fill_statistics,
};

}  // namespace

const pgmo_engine_api* engine_api() noexcept {
  return &kApi;
}

}  // namespace pgmo
