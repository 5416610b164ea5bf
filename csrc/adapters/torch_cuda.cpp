// The adapter for PyTorch CUDA tensors: wraps the allocator that c10 uses now.
//
//     at::empty ──▶ c10::cuda::CUDACachingAllocator::get() ──▶ TorchCudaAdapter
//                        an allocation pool is active? ──yes──▶ upstream, unseen
//                        engine of the device: a slot? ──yes──▶ the slot
//                        else                          ───────▶ upstream, told to the engine
//
// Compiled on the user's machine against the installed torch (pgmo/allocator/compile.py); needs the
// c10/cuda and CUDA headers and the C table in pgmo_engine.h, and links with c10 and c10_cuda.
// Methods that are only passed on differ between versions of torch, so they are generated from its
// headers: torch_cuda_forwarders.inc, see pgmo/allocator/forwarders.py.
//
// A storage keeps a pointer to the allocator that made it, and a deleter that points into this
// library: adapters are never destroyed, and the library is never unloaded.
//
// `raw_deleter` is upstream's: torch compares it with the deleters of blocks in pools, which are
// upstream's, too. Our own deleter is only on slots, and on blocks that the engine wants to see
// freed.

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "adapters/cuda_device.hpp"
#include "adapters/torch_common.hpp"
#include "adapters/torch_storage.hpp"
#include "engine/pgmo_engine.h"

// The generated methods name torch's types as torch's own class does.
namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// --- the adapter --------------------------------------------------------------------------------

class TorchCudaAdapter final : public CUDAAllocator {
 public:
// All methods that are passed on as they are; and macros for the others that this torch has.
#include "torch_cuda_forwarders.inc"

  TorchCudaAdapter(CUDAAllocator* upstream, int index)
      : upstream_(upstream), upstream_deleter_(upstream->raw_deleter()), index_(index) {
    upstreams[index] = upstream;
  }

  CUDAAllocator* upstream() const { return upstream_; }

  c10::DataPtr allocate(size_t bytes) override {
    c10::DeviceIndex current = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&current));
    const auto ask = [&] { return upstream_->allocate(bytes); };
    Device* device = known_device(current);
    if (device == nullptr || bytes == 0) return ask();
    if (!device->active()) return ask_upstream(*device, ask);
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(current).stream();
    const auto number = stream_number(*device, stream);
    if (!number) return ask();
    if (void* slot = slot_for(*device, bytes, *number)) return own(slot, current);

    c10::DataPtr data = ask_upstream(*device, ask);
    // Blocks with a context or a deleter of their own are left alone; they go unseen then.
    if (data.get() == data.get_context() && data.get_deleter() == upstream_deleter_ &&
        api->adopt(device->engine, data.get(), bytes, *number)) {
      (void)data.compare_exchange_deleter(upstream_deleter_, deleter(current));
    }
    return data;
  }

  void* raw_alloc(size_t bytes) override {
    c10::DeviceIndex current = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&current));
    return raw_alloc_with_stream(bytes, c10::cuda::getCurrentCUDAStream(current).stream());
  }

  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    c10::DeviceIndex current = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&current));
    const auto ask = [&] { return upstream_->raw_alloc_with_stream(bytes, stream); };
    Device* device = known_device(current);
    if (device == nullptr || bytes == 0) return ask();
    if (!device->active()) return ask_upstream(*device, ask);
    const auto number = stream_number(*device, stream);
    if (!number) return ask();
    if (void* slot = slot_for(*device, bytes, *number)) {
      const std::lock_guard guard(device->mutex);
      device->raw_slots.insert(slot);
      return slot;
    }
    void* block = ask_upstream(*device, ask);
    (void)api->adopt(device->engine, block, bytes, *number);  // `raw_delete` tells of its end
    return block;
  }

  void raw_delete(void* block) override {
    if (block == nullptr) return;
    for (Device& device : devices()) {
      if (!device.connected()) continue;
      if (api->owns(device.engine, block)) {
        {
          const std::lock_guard guard(device.mutex);
          device.raw_slots.erase(block);
        }
        return release(device, upstream_, block);
      }
      (void)api->release(device.engine, block);  // if it was adopted
      mind_absence(device, block);
    }
    upstream_->raw_delete(block);
  }

  c10::DeleterFnPtr raw_deleter() const override { return upstream_deleter_; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    upstream_->copy_data(to, from, bytes);
  }

  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override {
    const int index = data.get() == nullptr ? -1 : upstream_of(data.get_deleter());
    if (index < 0) return upstream_->recordStream(data, stream);
    Device& device = devices()[data.device().index()];
    // Each device has streams of its own, and all devices the same handle for the default one.
    const auto number = stream.device_index() == device.index
                            ? device.streams.number_of(stream.stream())
                            : std::nullopt;
    const uint64_t known = number ? *number : ~uint64_t{0};
    if (api->shared(device.engine, data.get(), known) == PGMO_SLOT) {
      device.deferred.note(data.get(), stream.device_index(), stream.stream());
    } else if (!api->owns(device.engine, data.get())) {
      // Torch's allocator ignores blocks whose deleter it does not know.
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
    refuse_slot(block);
    return upstream_->getBaseAllocation(block, size);
  }

  ShareableHandle shareIpcHandle(void* block) override {
    refuse_slot(block);
    return upstream_->shareIpcHandle(block);
  }

  void beginAllocateToPool(c10::DeviceIndex device, c10::cuda::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    upstream_->beginAllocateToPool(device, pool, filter);
    if (device < kMostDevices) devices()[device].pools.begin(pool, std::move(filter));
  }

  void endAllocateToPool(c10::DeviceIndex device, c10::cuda::MempoolId_t pool) override {
    if (device < kMostDevices) devices()[device].pools.end(pool);
    upstream_->endAllocateToPool(device, pool);
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
  // nullptr: no session has asked for it.
  static Device* known_device(int index) {
    if (index < 0 || index >= kMostDevices) return nullptr;
    Device& device = devices()[index];
    return device.connected() ? &device : nullptr;
  }

  // nullopt: to be passed on unseen.
  static std::optional<uint32_t> stream_number(Device& device, cudaStream_t stream) {
    if (device.pools.claim(stream)) return std::nullopt;
    return device.streams.number_of(stream);
  }

  static void* slot_for(Device& device, size_t bytes, uint32_t stream) {
    if (device.deferred.any_waiting()) [[unlikely]]
      finish_deferred(device);
    void* slot = api->allocate(device.engine, bytes, stream);
    if (slot != nullptr) tell_profiler_of_slot(device, slot, bytes);
    return slot;
  }

  c10::DeleterFnPtr deleter(int device) const { return kDeleters[index_ * kMostDevices + device]; }

  c10::DataPtr own(void* slot, int device) const {
    return {slot, slot, deleter(device), c10::Device(c10::DeviceType::CUDA, device)};
  }

  static void refuse_slot(const void* block) {
    for (const Device& device : devices()) {
      TORCH_CHECK(!device.connected() || !api->owns(device.engine, block),
                  "this tensor lies in pgmo's arena, which other processes cannot share; share a "
                  "copy made inside `with session.pause():`, as in tensor.clone()");
    }
  }

  CUDAAllocator* upstream_;
  c10::DeleterFnPtr upstream_deleter_;
  int index_;
};

std::array<TorchCudaAdapter*, kMostUpstreams> adapters{};  // never destroyed
bool stored = false;                                       // by us, not by torch's own call
bool left_beneath = false;  // another allocator lay on top when it was to be taken away

TorchCudaAdapter* as_ours(CUDAAllocator* allocator_now) {
  for (TorchCudaAdapter* adapter : adapters) {
    if (adapter != nullptr && adapter == allocator_now) return adapter;
  }
  return nullptr;
}

TorchCudaAdapter* adapter_over(CUDAAllocator* upstream) {
  for (int index = 0; index < kMostUpstreams; ++index) {
    if (adapters[index] == nullptr) adapters[index] = new TorchCudaAdapter(upstream, index);
    if (adapters[index]->upstream() == upstream) return adapters[index];
  }
  TORCH_CHECK(false, "the CUDA allocator has been exchanged more than ", kMostUpstreams,
              " times in this process");
}

// Whether one of ours has lain over it.
bool was_wrapped(CUDAAllocator* allocator_now) {
  for (const TorchCudaAdapter* adapter : adapters) {
    if (adapter != nullptr && adapter->upstream() == allocator_now) return true;
  }
  return false;
}

// The adapter that is current, or the one that would be.
TorchCudaAdapter* current_adapter() {
  CUDAAllocator* now = get();
  if (TorchCudaAdapter* ours = as_ours(now)) return ours;
  // Two of ours in one chain would take each other's blocks for the framework's.
  TORCH_CHECK(!left_beneath || was_wrapped(now),
              "an earlier session's adapter lies beneath the CUDA allocator that was installed on "
              "top of it; take that one away before");
  return adapter_over(now);
}

Device& device_at(int index) {
  TORCH_CHECK(index >= 0 && index < kMostDevices, "pgmo knows the CUDA devices 0 to ",
              kMostDevices - 1, ", not ", index);
  return devices()[index];
}

// --- arenas and regions -------------------------------------------------------------------------

struct Holding {
  CUDAAllocator* upstream;
  void* block;
  Device* device;
  uint64_t absences;
  bool pooled;
  c10::cuda::MempoolId_t pool;
};

void give_back(void* context) {
  const std::unique_ptr<Holding> holding(static_cast<Holding*>(context));
  try {
    // A region holds blocks of any stream; and what lived while the adapter was away may have been
    // used on another stream.
    if (holding->pooled || holding->absences != absences.load()) synchronize(*holding->device);
    const OnDevice on(holding->device->index);
    holding->upstream->raw_delete(holding->block);
  } catch (const std::exception& error) {
    // Nothing can be thrown from a free; the block stays with the allocator beneath.
    std::fprintf(stderr, "pgmo: an arena could not be given back: %s\n", error.what());
  }
}

void hold(std::unique_ptr<Holding> holding, size_t bytes, pgmo_arena* out) {
  *out = {.base = holding->block, .bytes = bytes, .give_back = give_back, .context = holding.get()};
  holding.release();
}

// Numbers that torch does not use: its own count up from one.
std::atomic<uint64_t> next_pool{uint64_t{1} << 62};

// From a pool of its own, so that the block is not cut from a cached one, which would be pinned.
void* take_from_pool(CUDAAllocator* upstream, int device, size_t bytes,
                     c10::cuda::MempoolId_t pool) {
  const std::thread::id self = std::this_thread::get_id();
  upstream->beginAllocateToPool(
      device, pool, [self](cudaStream_t) { return std::this_thread::get_id() == self; });
  void* block = nullptr;
  try {
    block = upstream->raw_alloc_with_stream(bytes, nullptr);
  } catch (...) {
    upstream->endAllocateToPool(device, pool);
    upstream->releasePool(device, pool);
    throw;
  }
  upstream->endAllocateToPool(device, pool);
  upstream->releasePool(device, pool);  // ends with its last block
  return block;
}

// --- moving -------------------------------------------------------------------------------------

// A copy inside of the device has only been submitted when cudaMemcpy returns, and the old block is
// about to be freed.
void copy_and_wait(void* to, const void* from, size_t bytes) {
  C10_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  C10_CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

constexpr Mover kMover{
    .copy = copy_and_wait,
    .familiar =
        [](const c10::DataPtr& data) {
          return data.get() == data.get_context() &&
                 (upstream_of(data.get_deleter()) >= 0 ||
                  data.get_deleter() == current_adapter()->raw_deleter());
        },
};

// For an address that the engine has assigned, which belongs to the result: whatever happens to
// that, the address is released. Any of the device's deleters will do, for it never comes to the
// allocator beneath.
c10::DataPtr block_at(void* address, int device) {
  return {address, address, kDeleters[device], c10::Device(c10::DeviceType::CUDA, device)};
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo

namespace adapter = c10::cuda::CUDACachingAllocator::pgmo;

extern "C" {

// All that take `message` return 0 on success; else 1, and the reason in `message`.

void* pgmo_adapter(char* message, size_t capacity) {
  void* out = nullptr;
  guarded(message, capacity, [&] {
    out = static_cast<c10::cuda::CUDACachingAllocator::CUDAAllocator*>(adapter::current_adapter());
  });
  return out;
}

int pgmo_connect(int device, const pgmo_engine_api* table, pgmo_engine* engine, char* message,
                 size_t capacity) {
  return guarded(message, capacity, [&] {
    TORCH_CHECK(table->version == PGMO_ENGINE_API_VERSION && table->size == sizeof(pgmo_engine_api),
                "this adapter was compiled for another version of pgmo's engine");
    adapter::Device& one = adapter::device_at(device);
    TORCH_CHECK(one.engine == nullptr || one.engine == engine,
                "the adapter serves this device from another engine already");
    adapter::api = table;
    one.engine = engine;
    one.mode.store(table->mode(engine), std::memory_order_release);
  });
}

int pgmo_install(char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    adapter::TorchCudaAdapter* ours = adapter::current_adapter();
    if (c10::cuda::CUDACachingAllocator::get() == ours) return;
    c10::cuda::CUDACachingAllocator::allocator.store(ours);
    adapter::stored = true;
    adapter::left_beneath = false;
  });
}

// Leaves an allocator that somebody has put on top of ours alone, and says so by 1. Stays, passing
// everything on, where torch's own call has installed it, or while blocks without a deleter live.
int pgmo_uninstall(char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    for (adapter::Device& device : adapter::devices()) adapter::leave(device);
    c10::cuda::CUDACachingAllocator::CUDAAllocator* now = c10::cuda::CUDACachingAllocator::get();
    adapter::TorchCudaAdapter* ours = adapter::as_ours(now);
    if (ours == nullptr && !adapter::stored && adapter::was_wrapped(now)) return;  // done before
    adapter::left_beneath = ours == nullptr;
    TORCH_CHECK(ours != nullptr, "another CUDA allocator was installed on top of pgmo's");
    if (!adapter::stored) return;
    for (adapter::Device& device : adapter::devices()) {
      const std::lock_guard guard(device.mutex);
      if (!device.raw_slots.empty()) return;
    }
    c10::cuda::CUDACachingAllocator::allocator.store(ours->upstream());
    adapter::stored = false;
    ++adapter::absences;
  });
}

// Whether a session is open on the device: while none is, nobody asks for slots that wait, so those
// that wait now, and those freed from now on, are waited for.
int pgmo_attend(int device, int on, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    adapter::Device& one = adapter::device_at(device);
    if (on == 0) return adapter::leave(one);
    one.attended.store(true);
  });
}

// Tells before `pgmo_uninstall` which of the framework's blocks have our deleter.
void pgmo_survive(int device, void* const* blocks, size_t count) {
  adapter::Device& one = adapter::devices()[device];
  const std::lock_guard guard(one.mutex);
  one.survivors.insert(blocks, blocks + count);
  one.has_survivors.store(!one.survivors.empty(), std::memory_order_release);
}

int pgmo_take_arena(int device, uint64_t stream, size_t bytes, pgmo_arena* out, char* message,
                    size_t capacity) {
  return guarded(message, capacity, [&] {
    adapter::Device& one = adapter::device_at(device);
    TORCH_CHECK(one.streams.known(stream), "stream ", stream, " has not been used yet");
    auto* upstream = adapter::current_adapter()->upstream();
    const OnDevice on(device);
    void* block = upstream->raw_alloc_with_stream(bytes, one.streams.handle(stream));
    adapter::hold(
        std::make_unique<adapter::Holding>(upstream, block, &one, adapter::absences.load(), false,
                                           c10::cuda::MempoolId_t{}),
        bytes, out);
  });
}

int pgmo_take_region(int device, size_t bytes, pgmo_arena* out, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    adapter::Device& one = adapter::device_at(device);
    auto* upstream = adapter::current_adapter()->upstream();
    const OnDevice on(device);
    const c10::cuda::MempoolId_t pool{0, adapter::next_pool.fetch_add(1)};
    void* block = adapter::take_from_pool(upstream, device, bytes, pool);
    adapter::hold(std::make_unique<adapter::Holding>(upstream, block, &one,
                                                     adapter::absences.load(), true, pool),
                  bytes, out);
  });
}

int pgmo_knows_stream(int device, uint64_t stream) {
  return adapter::devices()[device].streams.known(stream);
}

// The number of slots that still wait for another stream is not told: 0 or 1.
int pgmo_poll(int device) {
  adapter::Device& one = adapter::devices()[device];
  try {
    adapter::finish_all_deferred(one);
  } catch (const std::exception&) {
    // No memory: another time.
  }
  return one.deferred.any_waiting();
}

int pgmo_captured(int device) {
  return adapter::devices()[device].pools.ever();
}

void pgmo_set_advice(int device, const char* text) {
  adapter::Device& one = adapter::devices()[device];
  const std::lock_guard guard(one.mutex);
  one.advice = text;
}

int pgmo_synchronize(int device, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    const OnDevice on(device);
    C10_CUDA_CHECK(cudaDeviceSynchronize());
  });
}

int pgmo_storage(void* tensor, pgmo_storage_view* out, char* message, size_t capacity) {
  return guarded(message, capacity, [&] { view_storage(tensor, adapter::kMover, out); });
}

int pgmo_park(void* storage, void* host, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    const OnDevice on(storage_of(storage)->device().index());
    park_storage(storage, adapter::kMover, host);
  });
}

// To an address that the engine has assigned; null: to a block of the allocator beneath. The
// address belongs to the storage now, or has been released when this fails.
int pgmo_unpark(int device, void* storage, void* address, const void* host, char* message,
                size_t capacity) {
  return guarded(message, capacity, [&] {
    c10::DataPtr block;
    if (address != nullptr) block = adapter::block_at(address, device);
    const OnDevice on(device);
    if (address == nullptr) {
      block = adapter::current_adapter()->upstream()->allocate(storage_of(storage)->nbytes());
    }
    unpark_storage(storage, adapter::kMover, std::move(block), host);
  });
}

// What is said of the address above holds here, too.
int pgmo_move(int device, void* storage, void* address, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    c10::DataPtr block = adapter::block_at(address, device);
    const OnDevice on(device);
    move_storage(storage, adapter::kMover, std::move(block));
  });
}

}  // extern "C"
