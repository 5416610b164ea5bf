#include "runtime.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "state.hpp"

namespace fake {
namespace {

// For what nothing here can do.
cudaError_t unexpected(const char* call) {
  complain(std::string(call) + ", which is of pages");
  return fail(cudaErrorInvalidValue);
}

}  // namespace
}  // namespace fake

using fake::mutex;

extern "C" {

cudaError_t cudaGetLastError() {
  return std::exchange(fake::last_error, cudaSuccess);
}

cudaError_t cudaGetDevice(int* device) {
  *device = fake::device_now;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= fake::kDevices) return fake::fail(cudaErrorInvalidDevice);
  const std::lock_guard guard(mutex);
  fake::make_current(device);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard guard(mutex);
  fake::lines += "cudaDeviceSynchronize(" + std::to_string(fake::device_now) + ")\n";
  for (auto& [handle, stream] : fake::streams) {
    if (fake::device_of(handle) != fake::device_now) continue;
    if (stream.capturing) fake::complain_locked("cudaDeviceSynchronize during a capture");
    fake::complete(handle);
  }
  return fake::forbidden("cudaDeviceSynchronize") ? fake::fail(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  *value = attribute == cudaDevAttrConcurrentManagedAccess && device == 0;
  return cudaSuccess;
}

// Unified memory is memory of the host here, and never more than 1 GiB at once.
cudaError_t cudaMallocManaged(void** memory, size_t bytes, unsigned flags) {
  const std::lock_guard guard(mutex);
  if (flags != cudaMemAttachGlobal) fake::complain_locked("memory attached to a stream");
  *memory =
      bytes <= size_t{1} << 30 ? std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : nullptr;
  if (*memory == nullptr) return fake::fail(cudaErrorMemoryAllocation);
  fake::unified.insert(*memory);
  fake::lines += "cudaMallocManaged(" + std::to_string(bytes) + ")\n";
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  const std::lock_guard guard(mutex);
  if (fake::unified.erase(memory) == 0) {
    fake::complain_locked("cudaFree of what was not there");
    return fake::fail(cudaErrorInvalidValue);
  }
  fake::lines += "cudaFree()\n";
  std::free(memory);
  return cudaSuccess;
}

// Returns before the default stream has come so far, as a copy inside of a device does.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  const std::lock_guard guard(mutex);
  if (fake::failing == fake::kCopies) return fake::fail(cudaErrorInvalidValue);
  fake::copies.push_back({fake::device_now, to, from, bytes});
  if (!fake::stream_at(std::uint64_t{0}).held) fake::complete(0);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard guard(mutex);
  const auto handle = reinterpret_cast<std::uint64_t>(stream);
  if (fake::device_of(handle) != fake::device_now) {
    fake::complain_locked("a stream of another device was waited for");
  }
  fake::stream_at(handle).waited_for = true;
  fake::complete(handle);
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  const std::lock_guard guard(mutex);
  ++fake::calls;
  std::swap(*mode, fake::mode_now);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard guard(mutex);
  *status = fake::stream_at(stream).capturing ? cudaStreamCaptureStatusActive
                                              : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const std::lock_guard guard(mutex);
  ++fake::calls;
  if (fake::failing == fake::kEverything) return fake::fail(cudaErrorCudartUnloading);
  *event = reinterpret_cast<cudaEvent_t>(new fake::Event{.device = fake::device_now});
  ++fake::living_events;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard guard(mutex);
  auto* one = reinterpret_cast<fake::Event*>(event);
  if (one->device != fake::device_of(reinterpret_cast<std::uint64_t>(stream))) {
    fake::complain_locked("an event was recorded on a stream of another device");
    return fake::fail(cudaErrorInvalidValue);
  }
  if (fake::failing == fake::kRecording) return fake::fail(cudaErrorInvalidValue);
  fake::Stream& target = fake::stream_at(stream);
  if (target.capturing) fake::complain_locked("an event was recorded into a capture");
  one->stream = &target;
  one->place = ++target.submitted;
  if (!target.held) target.completed = target.submitted;
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard guard(mutex);
  ++fake::calls;
  if (fake::forbidden("cudaEventQuery")) return fake::fail(cudaErrorInvalidValue);
  const auto* one = reinterpret_cast<fake::Event*>(event);
  if (one->stream == nullptr || one->place <= one->stream->completed) return cudaSuccess;
  return fake::fail(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard guard(mutex);
  if (fake::forbidden("cudaEventSynchronize")) return fake::fail(cudaErrorInvalidValue);
  const auto* one = reinterpret_cast<fake::Event*>(event);
  if (one->stream != nullptr) {
    one->stream->waited_for = true;
    one->stream->completed = std::max(one->stream->completed, one->place);
  }
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard guard(mutex);
  delete reinterpret_cast<fake::Event*>(event);
  --fake::living_events;
  return cudaSuccess;
}

// Of pages, which this runtime's devices have none of.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned) {
  return fake::unexpected("cudaStreamCreateWithFlags");
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return fake::unexpected("cudaStreamDestroy");
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return fake::unexpected("cudaStreamWaitEvent");
}
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t) {
  return fake::unexpected("cudaMemsetAsync");
}
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t) {
  return fake::unexpected("cudaMemcpyAsync");
}

}  // extern "C"
