// What PyTorch does with its CUDA allocator, as C functions that a test calls; and the parts of
// libc10_cuda that the adapter links with.
//
// Everything goes through the allocator that is current, as in PyTorch. Functions that end with
// `message` return 0, or 1 for an error, or 2 when memory has run out, by the type of exception.

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "upstream.hpp"

namespace c10::cuda {

// Its signature differs between versions; all forms are here, and one of them is asked for.
#ifdef PGMO_CUDA_ERROR_LOG
CUDAErrorLogCapture::CUDAErrorLogCapture() noexcept = default;
void c10_cuda_check_implementation(int32_t error, const char*, const char* function, uint32_t, bool,
                                   CUDAErrorLogCapture*) {
  TORCH_CHECK(error == cudaSuccess, "CUDA error ", error, " in ", function);
}
#endif
void c10_cuda_check_implementation(int32_t error, const char*, const char* function, uint32_t,
                                   bool) {
  TORCH_CHECK(error == cudaSuccess, "CUDA error ", error, " in ", function);
}
void c10_cuda_check_implementation(int32_t error, const char*, const char* function, int, bool) {
  TORCH_CHECK(error == cudaSuccess, "CUDA error ", error, " in ", function);
}

cudaError_t GetDevice(DeviceIndex* device) {
  *device = static_cast<DeviceIndex>(fake::current_device());
  return cudaSuccess;
}

DeviceIndex ExchangeDevice(DeviceIndex device) {
  return static_cast<DeviceIndex>(fake::exchange_device(device));
}

cudaError_t MaybeSetDevice(DeviceIndex device) {
  fake::maybe_set_device(device);
  return cudaSuccess;
}

CUDAStream getCurrentCUDAStream(DeviceIndex device) {
  if (device < 0) device = static_cast<DeviceIndex>(fake::current_device());
  return CUDAStream(Stream(Stream::UNSAFE, Device(DeviceType::CUDA, device),
                           static_cast<StreamId>(fake::current_stream(device))));
}

cudaStream_t CUDAStream::stream() const {
  return reinterpret_cast<cudaStream_t>(stream_.id());
}

}  // namespace c10::cuda

namespace c10::cuda::CUDACachingAllocator {

namespace fake_beneath {
namespace {

FakeUpstream* upstream_at(int which);

template <int which>
void delete_from(void* block) {
  upstream_at(which)->raw_delete(block);
}

// Never destroyed, as PyTorch's own.
FakeUpstream* upstream_at(int which) {
  static FakeUpstream* const all[] = {new FakeUpstream("beneath", &delete_from<0>),
                                      new FakeUpstream("another", &delete_from<1>)};
  return all[which];
}

struct Call {
  const char* method;
  std::string (*run)(CUDAAllocator*);
};

// The result of a call, whatever its type, in words.
template <typename Function>
std::string result_of(Function&& function) {
  if constexpr (std::is_void_v<decltype(function())>) {
    function();
    return "nothing";
  } else {
    return describe(function());
  }
}

const Call kCalls[] = {
#include "fake_calls.inc"
};

}  // namespace
}  // namespace fake_beneath

std::atomic<CUDAAllocator*> allocator{fake_beneath::upstream_at(0)};

}  // namespace c10::cuda::CUDACachingAllocator

namespace beneath = c10::cuda::CUDACachingAllocator::fake_beneath;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using c10::cuda::CUDACachingAllocator::get;

namespace {

template <typename Body>
int guarded(char* message, size_t capacity, Body&& body) {
  try {
    body();
    return 0;
  } catch (const c10::OutOfMemoryError& error) {
    fake::hand_out(error.what_without_backtrace(), message, capacity);
    return 2;
  } catch (const c10::Error& error) {
    fake::hand_out(error.what_without_backtrace(), message, capacity);
  } catch (const std::exception& error) {
    fake::hand_out(error.what(), message, capacity);
  }
  return 1;
}

c10::cuda::CUDAStream stream_of(int device, int number) {
  return c10::cuda::CUDAStream(
      c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::CUDA, device),
                  static_cast<c10::StreamId>(fake::handle_of(device, number))));
}

struct Profiler final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t bytes, size_t allocated, size_t reserved,
                         c10::Device device) override {
    fake::log("profiler: " + std::to_string(bytes) + ", " + std::to_string(allocated) + " of " +
              std::to_string(reserved) + " on " + device.str());
  }
  bool memoryProfilingEnabled() const override { return true; }
};

}  // namespace

extern "C" {

// --- allocators ---------------------------------------------------------------------------------

void* fake_upstream(int which) {
  return static_cast<CUDAAllocator*>(beneath::upstream_at(which));
}
void* fake_current() {
  return get();
}
void fake_store(void* allocator) {
  c10::cuda::CUDACachingAllocator::allocator.store(static_cast<CUDAAllocator*>(allocator));
}
size_t fake_living(int which) {
  return beneath::upstream_at(which)->living();
}
void fake_limit(int device, size_t bytes) {
  beneath::memory().limit.at(device) = bytes;
}
size_t fake_used(int device) {
  return beneath::memory().used.at(device);
}

int fake_calls() {
  return static_cast<int>(std::size(beneath::kCalls));
}
const char* fake_method(int call) {
  return beneath::kCalls[call].method;
}
// Calls one method through the interface; what came back is put into words.
int fake_call(int call, void* allocator, char* result, size_t capacity) {
  return guarded(result, capacity, [&] {
    fake::hand_out(beneath::kCalls[call].run(static_cast<CUDAAllocator*>(allocator)), result,
                   capacity);
  });
}

// --- blocks -------------------------------------------------------------------------------------

int fake_allocate(size_t bytes, void** out, char* message, size_t capacity) {
  return guarded(message, capacity, [&] { *out = new c10::DataPtr(get()->allocate(bytes)); });
}
void fake_free(void* data) {
  delete static_cast<c10::DataPtr*>(data);
}
void* fake_address(void* data) {
  return static_cast<c10::DataPtr*>(data)->get();
}
int fake_device_of(void* data) {
  return static_cast<c10::DataPtr*>(data)->device().index();
}

// Through the method for CUDA streams, or through the one for streams of any device.
int fake_record_stream(void* data, int device, int number, int of_any, char* message,
                       size_t capacity) {
  return guarded(message, capacity, [&] {
    const c10::DataPtr& block = *static_cast<c10::DataPtr*>(data);
    const c10::cuda::CUDAStream stream = stream_of(device, number);
#ifdef PGMO_HAS_recordStream_c10_Stream
    if (of_any)
      return static_cast<c10::DeviceAllocator*>(get())->recordStream(block, stream.unwrap());
#else
    (void)of_any;
#endif
    get()->recordStream(block, stream);
  });
}

int fake_raw_alloc(size_t bytes, void** out, char* message, size_t capacity) {
  return guarded(message, capacity, [&] { *out = get()->raw_alloc(bytes); });
}
int fake_raw_alloc_with_stream(size_t bytes, int device, int number, void** out, char* message,
                               size_t capacity) {
  return guarded(message, capacity, [&] {
    *out = get()->raw_alloc_with_stream(bytes, stream_of(device, number).stream());
  });
}
int fake_raw_delete(void* block, char* message, size_t capacity) {
  return guarded(message, capacity, [&] { get()->raw_delete(block); });
}
int fake_knows_raw_deleter(int which) {
  return get()->raw_deleter() == beneath::upstream_at(which)->raw_deleter();
}

int fake_share(void* block, char* message, size_t capacity) {
  return guarded(message, capacity, [&] { (void)get()->shareIpcHandle(block); });
}
int fake_base(void* block, size_t* bytes, char* message, size_t capacity) {
  return guarded(message, capacity, [&] { (void)get()->getBaseAllocation(block, bytes); });
}

// --- pools --------------------------------------------------------------------------------------

// `claims`: 0, what the calling thread requests; 1, what is requested on the stream.
int fake_begin_pool(int device, uint64_t id, int claims, int number, char* message,
                    size_t capacity) {
  return guarded(message, capacity, [&] {
    const cudaStream_t claimed = stream_of(device, number).stream();
    const std::thread::id self = std::this_thread::get_id();
    std::function<bool(cudaStream_t)> filter = [self](cudaStream_t) {
      return std::this_thread::get_id() == self;
    };
    if (claims == 1) filter = [claimed](cudaStream_t stream) { return stream == claimed; };
    get()->beginAllocateToPool(static_cast<c10::DeviceIndex>(device), {0, id}, filter);
  });
}
int fake_end_pool(int device, uint64_t id, char* message, size_t capacity) {
  return guarded(message, capacity,
                 [&] { get()->endAllocateToPool(static_cast<c10::DeviceIndex>(device), {0, id}); });
}

// --- PyTorch's profiler, of the calling thread --------------------------------------------------

void fake_profile(int on) {
  if (on != 0) {
    c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE,
                                     std::make_shared<Profiler>());
  } else {
    (void)c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
  }
}

// --- many threads at once -----------------------------------------------------------------------

// Threads that allocate, write, hand blocks to each other, use them on other streams and free them,
// until each has made so many requests. Returns the number of blocks whose bytes somebody else had
// changed.
uint64_t fake_attack(int threads, int requests, uint64_t seed) {
  struct Held {
    c10::DataPtr data;
    std::size_t bytes;
    unsigned char mark;
  };
  std::mutex mutex;
  std::vector<Held> passed_on;
  std::atomic<uint64_t> changed{0};
  std::atomic<unsigned> marks{0};

  const auto check = [&](const Held& one) {
    const auto* bytes = static_cast<const unsigned char*>(one.data.get());
    if (std::any_of(bytes, bytes + one.bytes, [&](unsigned char b) { return b != one.mark; })) {
      ++changed;
    }
  };
  const auto run = [&](int number) {
    std::mt19937_64 random(seed * 1000 + static_cast<uint64_t>(number));
    fake_set_device(0);
    fake_set_stream(0, number % 4 == 3 ? 1 : 0);
    std::vector<Held> mine;
    for (int request = 0; request < requests; ++request) {
      const std::size_t bytes = 512 * (1 + random() % 8) - random() % 64;
      Held one{get()->allocate(bytes), bytes, static_cast<unsigned char>(++marks)};
      std::memset(one.data.get(), one.mark, bytes);
      if (random() % 8 == 0) get()->recordStream(one.data, stream_of(0, 2 + random() % 2));
      mine.push_back(std::move(one));
      while (mine.size() > random() % 12) {
        const std::size_t at = random() % mine.size();
        Held gone = std::move(mine[at]);
        mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(at));
        check(gone);
        if (random() % 4 != 0) continue;  // freed here
        std::vector<Held> taken;
        const std::lock_guard guard(mutex);
        passed_on.push_back(std::move(gone));
        if (passed_on.size() > 8) taken.swap(passed_on);
        for (const Held& other : taken) check(other);
      }
    }
    for (const Held& one : mine) check(one);
  };
  std::vector<std::thread> all;
  for (int number = 0; number < threads; ++number) all.emplace_back(run, number);
  for (std::thread& one : all) one.join();
  for (const Held& one : passed_on) check(one);
  return changed;
}

}  // extern "C"
