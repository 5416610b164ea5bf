// The few functions of the CUDA driver that the plug-in needs, found at run time.
//
//     dlopen("libcuda.so.1") ──▶ Driver: a table of functions ──▶ DeviceMemory and the rest
//
// Nothing of CUDA is needed to build this: the types are those of the driver's C interface, whose
// symbols keep their meaning for ever. Tests name another library in PGMO_LIBCUDA.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pgmo::plugin {

using Result = int;
using DevicePointer = unsigned long long;
using Context = void*;
using Stream = void*;
using Event = void*;
using MemoryPool = void*;

constexpr Result kSuccess = 0;
constexpr Result kOutOfMemory = 2;
constexpr Result kNotReady = 600;

constexpr Stream kDefaultStream = nullptr;
// A different stream in each thread, all of them by one handle: CU_STREAM_PER_THREAD.
inline const Stream kPerThreadStream = reinterpret_cast<Stream>(std::uintptr_t{2});

constexpr unsigned kEventWithoutTiming = 2;
constexpr int kCaptureRelaxed = 2;
enum PoolAttribute : int { kReleaseThreshold = 4, kReservedNow = 5, kUsedNow = 7 };

// Field, symbol, and parameters. Symbols without a suffix mean the legacy default stream, as torch
// does.
#define PGMO_DRIVER_FUNCTIONS(F)                                                           \
  F(init, cuInit, (unsigned))                                                              \
  F(error_name, cuGetErrorName, (Result, const char**))                                    \
  F(retain_context, cuDevicePrimaryCtxRetain, (Context*, int))                             \
  F(current_context, cuCtxGetCurrent, (Context*))                                          \
  F(push_context, cuCtxPushCurrent_v2, (Context))                                          \
  F(pop_context, cuCtxPopCurrent_v2, (Context*))                                           \
  F(synchronize, cuCtxSynchronize, ())                                                     \
  F(memory_info, cuMemGetInfo_v2, (std::size_t*, std::size_t*))                            \
  F(address_range, cuMemGetAddressRange_v2, (DevicePointer*, std::size_t*, DevicePointer)) \
  F(allocate, cuMemAlloc_v2, (DevicePointer*, std::size_t))                                \
  F(free, cuMemFree_v2, (DevicePointer))                                                   \
  F(allocate_async, cuMemAllocAsync, (DevicePointer*, std::size_t, Stream))                \
  F(free_async, cuMemFreeAsync, (DevicePointer, Stream))                                   \
  F(default_pool, cuDeviceGetDefaultMemPool, (MemoryPool*, int))                           \
  F(set_pool_attribute, cuMemPoolSetAttribute, (MemoryPool, int, void*))                   \
  F(get_pool_attribute, cuMemPoolGetAttribute, (MemoryPool, int, void*))                   \
  F(trim_pool, cuMemPoolTrimTo, (MemoryPool, std::size_t))                                 \
  F(create_event, cuEventCreate, (Event*, unsigned))                                       \
  F(destroy_event, cuEventDestroy_v2, (Event))                                             \
  F(record_event, cuEventRecord, (Event, Stream))                                          \
  F(query_event, cuEventQuery, (Event))                                                    \
  F(synchronize_stream, cuStreamSynchronize, (Stream))                                     \
  F(is_capturing, cuStreamIsCapturing, (Stream, int*))                                     \
  F(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int*))

struct Driver {
#define PGMO_FIELD(field, symbol, parameters) Result(*field) parameters = nullptr;
  PGMO_DRIVER_FUNCTIONS(PGMO_FIELD)
#undef PGMO_FIELD
};

// Loads the driver at the first call. Throws std::runtime_error saying what is missing.
const Driver& driver();

// Throws std::runtime_error in torch's words, naming the call, unless the result is a success.
void check(const Driver& driver, Result result, const char* call);

// Allocation pools that are active now, on whatever device. A stream may be in capture then, which
// forbids most calls to every thread that does not ask for relaxed rules.
inline std::atomic<int> active_pools{0};

// Makes a context current and the capture rules relaxed, for as long as it lives. The thread's own
// device stays as it was: it would change what the program does next.
class DriverScope {
 public:
  DriverScope(const Driver& driver, Context context) noexcept;
  ~DriverScope();
  DriverScope(const DriverScope&) = delete;
  DriverScope& operator=(const DriverScope&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
  bool relaxed_ = false;
  int mode_ = kCaptureRelaxed;
};

}  // namespace pgmo::plugin
