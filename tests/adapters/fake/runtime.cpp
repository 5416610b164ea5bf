#include "runtime.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace fake {
namespace {

struct Stream {
  std::uint64_t submitted = 0;
  std::uint64_t completed = 0;
  bool held = false;
  bool capturing = false;
  bool waited_for = false;
};

struct Event {
  int device;
  Stream* stream = nullptr;  // null: never recorded, which counts as completed
  std::uint64_t place = 0;
};

std::mutex mutex;
std::string lines;
std::string complaints;
std::map<std::uint64_t, Stream> streams;
std::set<void*> unified;
int living_events = 0;
int calls = 0;
std::array<bool, kDevices> contexts{};

// What fails from now on.
enum Failing {
  kNothing = 0,
  kEverything = 1,  // as when CUDA is shut down: no event can be made
  kRecording = 2,   // events are made, but cannot be recorded
  kCopies = 3,
};
int failing = kNothing;

// Copies inside of a device that its held default stream has not done yet.
struct Copy {
  int device;
  void* to;
  const void* from;
  std::size_t bytes;
};
std::vector<Copy> copies;

thread_local int device_now = 0;
thread_local int device_to_be = -1;  // noted by PyTorch, which has not made it current
thread_local std::array<int, kDevices> streams_now{};
thread_local cudaStreamCaptureMode mode_now = cudaStreamCaptureModeGlobal;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t fail(cudaError_t error) {
  last_error = error;
  return error;
}

int device_of(std::uint64_t handle) {
  return handle == 0 ? device_now : static_cast<int>(handle >> 8) - 1;
}

// The default stream of a device has the number 0.
Stream& stream_at(std::uint64_t handle) {
  return streams[handle == 0 ? static_cast<std::uint64_t>(device_now + 1) << 8 : handle];
}

Stream& stream_at(cudaStream_t stream) {
  return stream_at(reinterpret_cast<std::uint64_t>(stream));
}

void make_current(int device) {
  device_now = device;
  contexts.at(device) = true;
}

// All that was submitted to it.
void complete(std::uint64_t handle) {
  Stream& stream = stream_at(handle);
  stream.completed = stream.submitted;
  if (handle != 0 && (handle & 0xff) != 0) return;
  const int device = device_of(handle);
  std::erase_if(copies, [&](const Copy& copy) {
    if (copy.device != device) return false;
    std::memcpy(copy.to, copy.from, copy.bytes);
    return true;
  });
}

bool any_capture() {
  return std::any_of(streams.begin(), streams.end(),
                     [](const auto& one) { return one.second.capturing; });
}

void complain_locked(const std::string& line) {
  complaints += line + "\n";
}

// Calls that CUDA forbids while anything is captured, unless the thread says that it knows. A
// stream's capture is of no use afterwards.
bool forbidden(const char* call) {
  if (mode_now == cudaStreamCaptureModeRelaxed || !any_capture()) return false;
  complain_locked(std::string(call) + " during a capture");
  return true;
}

}  // namespace

void log(const std::string& line) {
  const std::lock_guard guard(mutex);
  lines += line + "\n";
}

void complain(const std::string& line) {
  const std::lock_guard guard(mutex);
  complain_locked(line);
}

int current_device() {
  return device_to_be >= 0 ? device_to_be : device_now;
}

int exchange_device(int device) {
  const std::lock_guard guard(mutex);
  const int before = current_device();
  if (device_to_be >= 0 || device != before) make_current(device);
  device_to_be = -1;
  return before;
}

void maybe_set_device(int device) {
  const std::lock_guard guard(mutex);
  if (contexts.at(device)) {
    make_current(device);
    device_to_be = -1;
  } else {
    device_to_be = device;
  }
}

// For what nothing here can do.
cudaError_t unexpected(const char* call) {
  complain(std::string(call) + ", which is of pages");
  return fail(cudaErrorInvalidValue);
}

std::uint64_t handle_of(int device, int number) {
  return number == 0 ? 0 : static_cast<std::uint64_t>(device + 1) << 8 | number;
}

std::uint64_t current_stream(int device) {
  return handle_of(device, streams_now.at(device));
}

std::size_t hand_out(const std::string& text, char* to, std::size_t capacity) {
  const std::size_t size = std::min(text.size(), capacity - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
  return text.size();
}

}  // namespace fake

using fake::mutex;

extern "C" {

// --- what tests call ----------------------------------------------------------------------------

size_t fake_log(char* to, size_t capacity) {
  const std::lock_guard guard(mutex);
  return fake::hand_out(std::exchange(fake::lines, {}), to, capacity);
}

size_t fake_complaints(char* to, size_t capacity) {
  const std::lock_guard guard(mutex);
  return fake::hand_out(std::exchange(fake::complaints, {}), to, capacity);
}

// Of the calling thread.
void fake_set_device(int device) {
  const std::lock_guard guard(mutex);
  fake::make_current(device);
  fake::device_to_be = -1;
}
// What PyTorch's guards do to a thread whose device has no context yet.
void fake_let_device_be(int device) {
  fake::device_to_be = device;
}
int fake_has_context(int device) {
  const std::lock_guard guard(mutex);
  return fake::contexts.at(device);
}
void fake_set_stream(int device, int number) {
  fake::streams_now.at(device) = number;
}
int fake_device() {
  return fake::current_device();
}

// Work that is submitted to the stream from now on is not done before `fake_let_go`.
void fake_hold(int device, int number) {
  const std::lock_guard guard(mutex);
  fake::streams[static_cast<std::uint64_t>(device + 1) << 8 | number].held = true;
}

void fake_let_go(int device, int number) {
  const std::lock_guard guard(mutex);
  const std::uint64_t handle = static_cast<std::uint64_t>(device + 1) << 8 | number;
  fake::streams[handle].held = false;
  fake::complete(handle);
}

void fake_capture(int device, int number, int on) {
  const std::lock_guard guard(mutex);
  fake::streams[static_cast<std::uint64_t>(device + 1) << 8 | number].capturing = on != 0;
}

// What: see `Failing`.
void fake_fail(int what) {
  fake::failing = what;
}

// How often the runtime was asked about captures and events.
int fake_calls_made() {
  const std::lock_guard guard(mutex);
  return fake::calls;
}

// Whether somebody has waited for a stream or for one of its events.
int fake_waited_for(int device, int number) {
  const std::lock_guard guard(mutex);
  return fake::streams[static_cast<std::uint64_t>(device + 1) << 8 | number].waited_for;
}

int fake_living_events() {
  const std::lock_guard guard(mutex);
  return fake::living_events;
}

// --- the runtime --------------------------------------------------------------------------------

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
