// Adapter for PyTorch CPU tensors, over the allocator that c10 used before: "upstream".
//
//     at::empty ──▶ c10::GetCPUAllocator() ──▶ TorchCpuAdapter ──▶ engine: a slot?
//                                                     └─────────▶ upstream: everything else
//
// Compiled on the user's machine against the installed torch (pgmo/allocator/build/compile.py);
// needs the headers of c10 and ATen and the C table in pgmo_engine.h, and links with torch_cpu.
//
// A storage keeps a pointer to its allocator, and a deleter that points into this library. So
// adapters are never destroyed, and the library is never unloaded.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "adapters/torch_common.hpp"
#include "adapters/torch_operators.hpp"
#include "engine/pgmo_engine.h"

namespace {

const pgmo_engine_api* api = nullptr;
pgmo_engine* engine = nullptr;
const uint32_t* mode = nullptr;

constexpr uint64_t kStream = 0;  // CPU tensors have no streams
constexpr c10::DeviceType kDevice = c10::DeviceType::CPU;
// In a pause, the engine may give idle pages back when a block of at least this many bytes is
// allocated. Equals Heuristics::small_block.
constexpr size_t kLarge = size_t{1} << 20;

// The program may replace its allocator between two sessions, so there may be several upstreams. A
// deleter is a plain function without a context, so each upstream has a deleter of its own.
constexpr int kMostUpstreams = 8;
std::array<c10::DeleterFnPtr, kMostUpstreams> upstream_deleters{};

template <int upstream>
void release(void* pointer) {
  if (pointer == nullptr) return;
  // Report the free to torch's profiler before the slot can be served again. Upstream reports the
  // frees of its own blocks.
  if (c10::memoryProfilingEnabled() && api->owns(engine, pointer)) {
    c10::profiledCPUMemoryReporter().Delete(pointer);
  }
  if (api->release(engine, pointer) == PGMO_FOREIGN) upstream_deleters[upstream](pointer);
}

template <int... upstreams>
constexpr std::array<c10::DeleterFnPtr, kMostUpstreams> make_deleters(
    std::integer_sequence<int, upstreams...>) {
  return {&release<upstreams>...};
}
constexpr auto kDeleters = make_deleters(std::make_integer_sequence<int, kMostUpstreams>{});

// Return whether the error says that memory is exhausted. If memory is exhausted, c10's own CPU
// allocator throws a plain c10::Error, which becomes a RuntimeError in Python.
bool is_refusal(const c10::Error& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         std::strstr(error.what(), "allocate memory") != nullptr;
}

[[noreturn]] void throw_out_of_memory(size_t bytes, const char* upstream_says) {
  pgmo_engine_statistics now;
  api->statistics(engine, &now);
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CPU out of memory. Tried to allocate ",
                   binary_units(bytes), " outside of pgmo's arenas. pgmo's arenas hold ",
                   binary_units(now.arena_bytes), ", of which ", binary_units(now.live_slot_bytes),
                   " are in use; other blocks that the session has seen hold ",
                   binary_units(now.live_fallback_bytes),
                   ". Reduce the batch size. The allocator said: ", upstream_says);
}

class TorchCpuAdapter final : public c10::Allocator {
 public:
  TorchCpuAdapter(c10::Allocator* upstream, int index)
      : upstream_(upstream),
        upstream_deleter_(upstream->raw_deleter()),
        deleter_(kDeleters[index]) {
    upstream_deleters[index] = upstream_deleter_;
  }

  c10::Allocator* upstream() const { return upstream_; }

  c10::DataPtr allocate(size_t bytes) override {
    if (__atomic_load_n(mode, __ATOMIC_RELAXED) == 0 || bytes == 0) {
      c10::DataPtr data = allocate_yielding(bytes);
      // In a pause, `adopt` only lets the engine give idle pages back to the operating system.
      if (bytes >= kLarge) adopt(data, bytes);
      return data;
    }
    if (void* slot = api->allocate(engine, bytes, kStream)) {
      if (c10::memoryProfilingEnabled()) c10::profiledCPUMemoryReporter().New(slot, bytes);
      return {slot, slot, deleter_, c10::Device(kDevice)};
    }
    c10::DataPtr data = allocate_upstream(bytes);
    adopt(data, bytes);
    return data;
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return upstream_deleter_ == nullptr ? nullptr : deleter_;
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  // Report a block to the engine and give it pgmo's deleter. Blocks with a context of their own
  // stay as they are, and the engine does not see them.
  void adopt(c10::DataPtr& data, size_t bytes) {
    if (upstream_deleter_ != nullptr && data.get() == data.get_context() &&
        data.compare_exchange_deleter(upstream_deleter_, deleter_) &&
        !api->adopt(engine, data.get(), bytes, kStream, 0)) {
      (void)data.compare_exchange_deleter(deleter_, upstream_deleter_);
    }
  }

  // Allocate from upstream. If memory is exhausted, give idle arenas back and retry: for example,
  // in an evaluation between two steps.
  c10::DataPtr allocate_yielding(size_t bytes) {
    try {
      return upstream_->allocate(bytes);
    } catch (const c10::Error& error) {
      if (!is_refusal(error) || api->yield_idle(engine) == 0) throw;
    } catch (const std::bad_alloc&) {
      if (api->yield_idle(engine) == 0) throw;
    }
    return upstream_->allocate(bytes);
  }

  c10::DataPtr allocate_upstream(size_t bytes) {
    try {
      return allocate_yielding(bytes);
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error& error) {
      if (!is_refusal(error)) throw;
      throw_out_of_memory(bytes, error.what_without_backtrace());
    } catch (const std::bad_alloc& error) {
      throw_out_of_memory(bytes, error.what());
    }
  }

  c10::Allocator* upstream_;
  c10::DeleterFnPtr upstream_deleter_;
  c10::DeleterFnPtr deleter_;
};

Adapters<TorchCpuAdapter, c10::Allocator, kMostUpstreams> adapters("CPU");

// Set if an adapter could not be uninstalled, because another allocator was installed after it.
bool left_beneath = false;

}  // namespace

extern "C" {

// Each function returns 0 on success; otherwise 1, with the reason in `message`.

int pgmo_install(const pgmo_engine_api* table, pgmo_engine* handle, char* message,
                 size_t capacity) {
  return guarded(message, capacity, [&] {
    TORCH_CHECK(table->version == PGMO_ENGINE_API_VERSION && table->size == sizeof(pgmo_engine_api),
                "this adapter was compiled for another version of pgmo's engine");
    TORCH_CHECK(
        engine == nullptr || engine == handle,
        "pgmo was imported a second time, with another native module: restart the program to use "
        "pgmo again");
    c10::Allocator* current = c10::GetCPUAllocator();
    if (adapters.find(current) != nullptr) return;
    // Two adapters in one chain of allocators would treat each other's blocks as torch's.
    TORCH_CHECK(!left_beneath || adapters.wraps(current),
                "the current CPU allocator was installed after pgmo's adapter, and may wrap it; "
                "remove that allocator first");
    left_beneath = false;
    api = table;
    engine = handle;
    mode = table->mode(handle);
    TorchCpuAdapter* adapter = adapters.over(current);
    // Use the default priority 0: with a higher priority, the adapter could never be uninstalled.
    c10::SetCPUAllocator(adapter, 0);
    TORCH_CHECK(c10::GetCPUAllocator() == adapter,
                "the current CPU allocator was installed with a priority above 0, so torch refuses "
                "to replace it");
  });
}

// Uninstall the adapter. If another allocator was installed after it, change nothing and return 1.
int pgmo_uninstall(char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    const TorchCpuAdapter* const ours = adapters.find(c10::GetCPUAllocator());
    left_beneath = ours == nullptr;
    TORCH_CHECK(!left_beneath, "another CPU allocator was installed on top of pgmo's");
    c10::SetCPUAllocator(ours->upstream(), 0);
  });
}

// Take an arena: one block of upstream.
int pgmo_take_arena(size_t bytes, pgmo_arena* out, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    c10::Allocator* const current = c10::GetCPUAllocator();
    const TorchCpuAdapter* const ours = adapters.find(current);
    c10::Allocator* const upstream = ours != nullptr ? ours->upstream() : current;
    auto block = std::make_unique<c10::DataPtr>(upstream->allocate(bytes));
    *out = {.base = block->get(),
            .bytes = bytes,
            .give_back = [](void* context) { delete static_cast<c10::DataPtr*>(context); },
            .context = block.get()};
    block.release();
  });
}

}  // extern "C"
