// Adapter for PyTorch CUDA tensors: the C functions that Python calls. The adapter wraps the
// allocator that torch used before: torch's own, unless the program has installed another. The
// wrapped allocator is "upstream" in names and "the allocator beneath" in comments.
//
//     at::empty ──▶ c10::cuda::CUDACachingAllocator::get() ──▶ TorchCudaAdapter
//                        an allocation pool is active? ──yes──▶ upstream, without the engine;
//                                                               for a torch.cuda.MemPool: pages
//                        engine of the device: a slot? ──yes──▶ the slot
//                        else                          ───────▶ upstream, reported to the engine
//
// Compiled on the user's machine against the installed torch (pgmo/allocator/build/compile.py).
// Needs the headers of ATen, c10/cuda and CUDA, and the C table in pgmo_engine.h. Links with
// torch_cpu, c10 and c10_cuda. Methods that only forward differ between versions of torch, so they
// are generated from its headers: torch_cuda_forwarders.inc, see
// pgmo/allocator/build/forwarders.py.
//
// A storage keeps a pointer to its allocator, and a deleter that points into this library. So
// adapters are never destroyed, and the library is never unloaded.

#include <algorithm>
#include <memory>

#include "adapters/cuda/arenas.hpp"
#include "adapters/cuda/current.hpp"
#include "adapters/cuda/forks.hpp"
#include "adapters/cuda/history/trace.hpp"
#include "adapters/cuda/managed.hpp"
#include "adapters/torch_operators.hpp"

namespace adapter = c10::cuda::CUDACachingAllocator::pgmo;

extern "C" {

// Functions with `message` that return int return 0 on success; otherwise 1, with the reason in
// `message` (at most `capacity` bytes). Sizes are in bytes; streams are numbers of StreamNumbers.

// Return the adapter as a torch CUDAAllocator, created if necessary; null on failure.
void* pgmo_adapter(char* message, size_t capacity) {
  void* out = nullptr;
  guarded(message, capacity, [&] {
    out = static_cast<c10::cuda::CUDACachingAllocator::CUDAAllocator*>(adapter::current_adapter());
  });
  return out;
}

// Add the engine of a session to a device. The first engine gets the device's requests at once.
int pgmo_connect(int device, const pgmo_engine_api* table, pgmo_engine* engine, char* message,
                 size_t capacity) {
  return guarded(message, capacity, [&] {
    TORCH_CHECK(table->version == PGMO_ENGINE_API_VERSION && table->size == sizeof(pgmo_engine_api),
                "this adapter was compiled for another version of pgmo's engine");
    adapter::Device& one = adapter::device_at(device);
    adapter::api = table;
    const std::lock_guard guard(one.mutex);
    if (one.any_engine([&](pgmo_engine* known) { return known == engine; })) return;
    const int count = one.engine_count.load();
    TORCH_CHECK(count < adapter::kMostEngines, "more than ", adapter::kMostEngines,
                " sessions are open on one device");
    one.engines[count] = engine;
    one.engine_count.store(count + 1, std::memory_order_release);
    if (count > 0) return;
    one.engine.store(engine);
    one.mode.store(table->mode(engine), std::memory_order_release);
  });
}

// Pass the device's requests to this engine from now on. Sessions on one device take turns.
void pgmo_take_turn(int device, pgmo_engine* engine) {
  adapter::Device* const one = adapter::device_or_null(device);
  if (one == nullptr) return;
  one->engine.store(engine);
  one->mode.store(adapter::api->mode(engine), std::memory_order_release);
}

// Set the function table of the pages. Call this before any other function for pages. `everywhere`:
// if non-zero, pages are opened on each device at its first request; if zero, when a session calls
// pgmo_open_pages or pgmo_serve_pages.
int pgmo_know_pages(const pgmo_pages_api* table, int everywhere, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    TORCH_CHECK(table->version == PGMO_PAGES_API_VERSION && table->size == sizeof(pgmo_pages_api),
                "this adapter was compiled for another version of pgmo's pages");
    adapter::pages_api = table;
    adapter::handle_forks();
    (void)adapter::current_adapter();
    if (everywhere != 0) adapter::pages_everywhere.store(true);
  });
}

// Set the function table for the model of plain PyTorch, and its settings from the environment.
int pgmo_know_baseline(const pgmo_baseline_api* table, const pgmo_baseline_settings* settings,
                       char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    TORCH_CHECK(
        table->version == PGMO_BASELINE_API_VERSION && table->size == sizeof(pgmo_baseline_api),
        "this adapter was compiled for another version of pgmo's model of PyTorch");
    adapter::baseline_settings = *settings;
    adapter::baseline_api = table;
  });
}

// Copy the model's figures to `out`. Return 1, or 0 if the device has no model.
int pgmo_baseline_of(int device, pgmo_baseline_figures* out) {
  const adapter::BaselineFeed* const feed = adapter::feed_of(device);
  return feed != nullptr && feed->figures(out);
}

// Empty torch's cache on behalf of pgmo. The model of plain PyTorch keeps its cache.
int pgmo_empty_cache(char* message, size_t capacity) {
  return guarded(message, capacity, [] {
    const adapter::PgmoCallScope own;
    c10::cuda::CUDACachingAllocator::emptyCache();
  });
}

// Open the pages of a device. Return 1 if the device has pages now, otherwise 0.
int pgmo_open_pages(int device) {
  adapter::Device* const one = adapter::device_or_null(device);
  if (one == nullptr || adapter::forked.load()) return 0;
  try {
    const OnDevice on_device(device);
    return adapter::open_pages(*one, adapter::current_adapter()->upstream());
  } catch (const std::exception&) {
    return 0;
  }
}

// Set whether pages serve requests without a slot. Return 1 if `on` is set and pages serve now.
int pgmo_serve_pages(int device, int on) {
  adapter::Device* const one = adapter::device_or_null(device);
  if (one == nullptr) return 0;
  if (on == 0) {
    if (adapter::pages_everywhere.load()) return 0;  // pages serve without a session, too
    one->serves_pages.store(false);
    one->splits.set({});
    if (one->pages() != nullptr) {
      adapter::synchronize(*one);
      (void)adapter::pages_api->give_back(one->pages(), ~uint64_t{0});
      (void)adapter::share_fraction(*one, adapter::upstreams[0]);
    }
    return 0;
  }
  if (adapter::forked.load()) return 0;
  try {
    const OnDevice on_device(device);
    auto* upstream = adapter::current_adapter()->upstream();
    if (!adapter::open_pages(*one, upstream)) return 0;
    adapter::read_fraction(*one, upstream);
    (void)adapter::drop_cache_beneath(*one, upstream);
  } catch (const std::exception&) {
    return 0;
  }
  one->serves_pages.store(true);
  return 1;
}

// Set the gaps in torch's segments of large blocks (splits.hpp). Each gap has four numbers:
// address, bytes, address of its segment, handle of its stream.
void pgmo_use_splits(int device, const uint64_t* gaps, size_t count) {
  adapter::Device* const one = adapter::device_or_null(device);
  if (one == nullptr) return;
  std::vector<adapter::SplitBlocks::Gap> all;
  for (size_t at = 0; at < count; ++at, gaps += 4) {
    const auto handle = reinterpret_cast<cudaStream_t>(gaps[3]);  // NOLINT: a handle as a number
    if (const auto stream = one->streams.number_of(handle)) {
      all.push_back({gaps[0], gaps[1], gaps[2], *stream});
    }
  }
  one->splits.set(std::move(all));
}

// Return the page space of a device, or null.
void* pgmo_space_of(int device) {
  const adapter::Device* const one = adapter::device_or_null(device);
  return one != nullptr ? one->pages() : nullptr;
}

// Set whether the next requests, on all devices, are for blocks that stay live.
void pgmo_expect_lasting(int on) {
  for (adapter::Device& one : adapter::devices()) {
    if (one.pages() != nullptr) adapter::pages_api->expect_lasting(one.pages(), on);
  }
}

// Limit the bytes that a session may have in pages; 0: only the memory fraction limits them.
int pgmo_limit_pages(int device, uint64_t bytes, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    adapter::Device& one = adapter::device_at(device);
    if (one.pages() == nullptr) return;
    one.limit.store(bytes != 0 ? bytes : ~uint64_t{0});
    adapter::limit_pages(one);
  });
}

// Make the adapter torch's CUDA allocator.
int pgmo_install(char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    adapter::TorchCudaAdapter* ours = adapter::current_adapter();
    if (c10::cuda::CUDACachingAllocator::get() == ours) return;
    adapter::cuda_used.store(true);
    for (adapter::Device& device : adapter::devices()) device.baseline.resume();
    adapter::follow_caching_of(ours->upstream());
    c10::cuda::CUDACachingAllocator::allocator.store(ours);
    c10::SetAllocator(c10::DeviceType::CUDA, ours);
    adapter::stored = true;
    adapter::left_beneath = false;
  });
}

// Uninstall the adapter: torch calls the allocator beneath directly again. If another allocator was
// installed over the adapter, change nothing and return 1. The adapter stays installed if torch's
// own function (change_current_allocator) has installed it, if blocks of pgmo without a deleter are
// live, or if `stays` returns true.
int pgmo_uninstall(char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    for (adapter::Device& device : adapter::devices()) adapter::leave(device);
    c10::cuda::CUDACachingAllocator::CUDAAllocator* now = c10::cuda::CUDACachingAllocator::get();
    adapter::TorchCudaAdapter* ours = adapter::adapters.find(now);
    // The adapter is already uninstalled.
    if (ours == nullptr && !adapter::stored && adapter::adapters.wraps(now)) return;
    adapter::left_beneath = ours == nullptr;
    TORCH_CHECK(ours != nullptr, "another CUDA allocator was installed on top of pgmo's");
    if (!adapter::stored || adapter::stays()) return;
    for (adapter::Device& device : adapter::devices()) {
      const std::lock_guard guard(device.mutex);
      if (!device.raw_slots.empty()) return;
    }
    for (adapter::Device& device : adapter::devices()) device.baseline.suspend();
    c10::cuda::CUDACachingAllocator::allocator.store(ours->upstream());
    c10::SetAllocator(c10::DeviceType::CUDA, ours->upstream());
    adapter::stored = false;
    ++adapter::absences;
  });
}

// Set whether a session is open on the device. Sessions poll delayed frees (deferred.hpp). If `on`
// is zero, nothing polls: wait for the pending frees now, and for each later free at once.
int pgmo_attend(int device, int on, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    adapter::Device& one = adapter::device_at(device);
    if (on == 0) {
      adapter::leave(one);
      for (const adapter::Device& other : adapter::devices()) {
        if (other.attended.load()) return;
      }
      return adapter::Trace::get().stop();
    }
    one.baseline.begin(device, one.pools, adapter::current_adapter()->upstream());
    one.attended.store(true);
    adapter::Trace::get().listen();
  });
}

// Return how often another trace has replaced the adapter's trace of events (history/trace.hpp).
uint64_t pgmo_displacements() {
  return adapter::Trace::get().displacements();
}

// Name the framework's live blocks that have a deleter of pgmo. Called before `pgmo_uninstall`.
// While the adapter is not installed, it does not see the use of these blocks on other streams. So
// their frees synchronize the device. Does nothing if the adapter stays installed.
void pgmo_survive(int device, void* const* blocks, size_t count) {
  adapter::Device* const one = adapter::device_or_null(device);
  if (one == nullptr) return;
  if (adapter::stays()) return;
  const std::lock_guard guard(one->mutex);
  one->survivors.insert(blocks, blocks + count);
  one->has_survivors.store(!one->survivors.empty(), std::memory_order_release);
}

// Take an arena on a stream: one block of the allocator beneath.
int pgmo_take_arena(int device, uint64_t stream, size_t bytes, pgmo_arena* out, char* message,
                    size_t capacity) {
  return guarded(message, capacity, [&] {
    adapter::require_own_device();
    adapter::Device& one = adapter::device_at(device);
    TORCH_CHECK(one.streams.known(stream), "no stream with pgmo's number ", stream,
                " has requested memory yet");
    auto* upstream = adapter::current_adapter()->upstream();
    const OnDevice on(device);
    const adapter::PgmoCallScope own;
    void* block = upstream->raw_alloc_with_stream(bytes, one.streams.handle(stream));
    auto holding =
        std::make_unique<adapter::Holding>(upstream, block, &one, adapter::absences.load());
    adapter::hold(std::move(holding), bytes, adapter::give_back, out);
  });
}

// Store three numbers in `out`. The first two are the card's free bytes and total bytes. The third
// is 1 if card and host may use a page of unified memory concurrently, with migration on touch.
int pgmo_card(int device, uint64_t out[3], char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    adapter::require_own_device();
    (void)adapter::device_at(device);
    const OnDevice on(device);
    size_t available = 0, total = 0;
    int concurrent = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&available, &total));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device));
    out[0] = available;
    out[1] = total;
    out[2] = static_cast<uint64_t>(concurrent);
  });
}

// Start a copy between device and host on the default stream. The addresses imply the direction.
int pgmo_copy(int device, void* to, const void* from, size_t bytes, char* message,
              size_t capacity) {
  return guarded(message, capacity, [&] {
    adapter::require_own_device();
    (void)adapter::device_at(device);
    const OnDevice on(device);
    C10_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, nullptr));
  });
}

// Return whether the number belongs to a stream that has requested memory.
int pgmo_knows_stream(int device, uint64_t stream) {
  const adapter::Device* const one = adapter::device_or_null(device);
  return one != nullptr && one->streams.known(stream);
}

// Release blocks whose delayed frees are due. Return whether other blocks still wait.
int pgmo_poll(int device) {
  adapter::Device* const one = adapter::device_or_null(device);
  if (one == nullptr) return 0;
  try {
    adapter::finish_all_deferred(*one);
  } catch (const std::exception&) {
    // The host is out of memory: a later call releases the blocks.
  }
  return one->deferred.any_waiting();
}

// Set the address of the count of out-of-memory errors that still exist. A failing request waits at
// most `patience` milliseconds until one of these errors is dropped (held_errors.hpp).
void pgmo_watch_errors(const int64_t* held, uint32_t patience) {
  adapter::error_patience_ms.store(patience);
  adapter::errors_held.store(held, std::memory_order_release);
}

// Announce that this thread is about to begin a capture. `graph`: the graph's number, if its
// replays will be reported; otherwise 0. `expands`: whether the graph's pool may have expandable
// segments. Two zeros: the capture has begun.
void pgmo_announce_graph(uint64_t graph, int expands) {
  adapter::announced_graph = graph;
  adapter::may_expand = expands != 0;
}

// Prepare the replay of a graph on the current stream. Fails if the device has too few pages. If
// this fails, the graph must not be launched.
int pgmo_before_replay(int device, uint64_t graph, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    adapter::before_replay(adapter::device_at(device), adapter::upstreams[0], graph);
  });
}

// Record that the graph was launched on the current stream.
void pgmo_after_replay(int device, uint64_t graph) {
  const adapter::Device* const one = adapter::device_or_null(device);
  if (one != nullptr) adapter::after_replay(*one, graph);
}

// Give a graph's pool pages of its own, because further launches of the graph are not reported.
// Fails if the device has too few pages.
int pgmo_keep_graph_apart(int device, uint64_t graph, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    adapter::keep_apart(adapter::device_at(device), adapter::upstreams[0], graph);
  });
}

// Let the allocator beneath serve later requests of a pool. Called before the pool is registered
// with NCCL. Return whether live blocks of the pool lie in pages, which cannot be registered.
int pgmo_leave_pool(int device, uint64_t first, uint64_t second) {
  bool lives = false;
  try {
    lives = adapter::lives_in_pages(device, {first, second});
  } catch (const std::bad_alloc&) {
    // The host is out of memory, so this cannot be determined.
  }
  adapter::leave_pool(device, {first, second});
  return lives;
}

// Store five numbers in `out`, as in graphs::SharingFigures: bytes of graphs' pages, bytes of their
// segments, moved places, waits of replays, and lent pages. Zeros if there are no graphs.
void pgmo_graph_figures(int device, uint64_t out[5]) {
  std::fill_n(out, 5, 0);
  adapter::graphs::Chains* const chains = adapter::chains_of(device);
  if (chains == nullptr) return;
  const adapter::graphs::SharingFigures now = chains->figures();
  out[0] = now.held;
  out[1] = now.mapped;
  out[2] = now.moves;
  out[3] = now.waits;
  out[4] = now.lent;
}

// Set the text that ends the device's out-of-memory errors.
void pgmo_set_advice(int device, const char* text) {
  adapter::Device* const one = adapter::device_or_null(device);
  if (one == nullptr) return;
  const std::lock_guard guard(one->mutex);
  one->advice = text;
}

}  // extern "C"
