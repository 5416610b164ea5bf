#include "state.hpp"

#include <algorithm>
#include <cstring>

namespace fake {

std::mutex mutex;
std::string lines;
std::string complaints;
std::map<std::uint64_t, Stream> streams;
std::set<void*> unified;
int living_events = 0;
int calls = 0;
std::array<bool, kDevices> contexts{};
int failing = kNothing;
std::vector<Copy> copies;

constinit thread_local int device_now = 0;
constinit thread_local int device_to_be = -1;
constinit thread_local std::array<int, kDevices> streams_now{};
constinit thread_local cudaStreamCaptureMode mode_now = cudaStreamCaptureModeGlobal;
constinit thread_local cudaError_t last_error = cudaSuccess;

cudaError_t fail(cudaError_t error) {
  last_error = error;
  return error;
}

int device_of(std::uint64_t handle) {
  return handle == 0 ? device_now : static_cast<int>(handle >> 8) - 1;
}

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

namespace {

bool any_capture() {
  return std::any_of(streams.begin(), streams.end(),
                     [](const auto& one) { return one.second.capturing; });
}

}  // namespace

void complain_locked(const std::string& line) {
  complaints += line + "\n";
}

bool forbidden(const char* call) {
  if (mode_now == cudaStreamCaptureModeRelaxed || !any_capture()) return false;
  complain_locked(std::string(call) + " during a capture");
  return true;
}

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
