// What tests call: streams that are held, captures, calls that fail, and what the log has.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include "state.hpp"

using fake::mutex;

extern "C" {

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

}  // extern "C"
