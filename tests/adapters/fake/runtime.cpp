#include "runtime.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace fake {
namespace {

struct Stream {
  std::uint64_t submitted = 0;
  std::uint64_t completed = 0;
  bool held = false;
  bool capturing = false;
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
int living_events = 0;
bool failing = false;  // as when CUDA is shut down: no event can be made

thread_local int device_now = 0;
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
  return device_now;
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
  fake::device_now = device;
}
void fake_set_stream(int device, int number) {
  fake::streams_now.at(device) = number;
}
int fake_device() {
  return fake::device_now;
}

// Work that is submitted to the stream from now on is not done before `fake_let_go`.
void fake_hold(int device, int number) {
  const std::lock_guard guard(mutex);
  fake::streams[static_cast<std::uint64_t>(device + 1) << 8 | number].held = true;
}

void fake_let_go(int device, int number) {
  const std::lock_guard guard(mutex);
  fake::Stream& stream = fake::streams[static_cast<std::uint64_t>(device + 1) << 8 | number];
  stream.held = false;
  stream.completed = stream.submitted;
}

void fake_capture(int device, int number, int on) {
  const std::lock_guard guard(mutex);
  fake::streams[static_cast<std::uint64_t>(device + 1) << 8 | number].capturing = on != 0;
}

void fake_fail(int on) {
  fake::failing = on != 0;
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
  fake::device_now = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard guard(mutex);
  fake::lines += "cudaDeviceSynchronize(" + std::to_string(fake::device_now) + ")\n";
  for (auto& [handle, stream] : fake::streams) {
    if (fake::device_of(handle) != fake::device_now) continue;
    if (stream.capturing) fake::complain_locked("cudaDeviceSynchronize during a capture");
    stream.completed = stream.submitted;
  }
  return fake::forbidden("cudaDeviceSynchronize") ? fake::fail(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = 0;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
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
  if (fake::failing) return fake::fail(cudaErrorCudartUnloading);
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
  fake::Stream& target = fake::stream_at(stream);
  if (target.capturing) fake::complain_locked("an event was recorded into a capture");
  one->stream = &target;
  one->place = ++target.submitted;
  if (!target.held) target.completed = target.submitted;
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard guard(mutex);
  if (fake::forbidden("cudaEventQuery")) return fake::fail(cudaErrorInvalidValue);
  const auto* one = reinterpret_cast<fake::Event*>(event);
  if (one->stream == nullptr || one->place <= one->stream->completed) return cudaSuccess;
  return fake::fail(cudaErrorNotReady);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard guard(mutex);
  delete reinterpret_cast<fake::Event*>(event);
  --fake::living_events;
  return cudaSuccess;
}

}  // extern "C"
