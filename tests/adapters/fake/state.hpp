// What the runtime knows: shared by its calls (runtime.cpp) and by those of tests (controls.cpp).
//
// Everything is behind `mutex`, but for what belongs to the calling thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime.hpp"

namespace fake {

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

extern std::mutex mutex;
extern std::string lines;
extern std::string complaints;
extern std::map<std::uint64_t, Stream> streams;
extern std::set<void*> unified;
extern int living_events;
extern int calls;
extern std::array<bool, kDevices> contexts;

// What fails from now on.
enum Failing {
  kNothing = 0,
  kEverything = 1,  // as when CUDA is shut down: no event can be made
  kRecording = 2,   // events are made, but cannot be recorded
  kCopies = 3,
};
extern int failing;

// Copies inside of a device that its held default stream has not done yet.
struct Copy {
  int device;
  void* to;
  const void* from;
  std::size_t bytes;
};
extern std::vector<Copy> copies;

extern constinit thread_local int device_now;
extern constinit thread_local int device_to_be;  // noted by PyTorch, which has not made it current
extern constinit thread_local std::array<int, kDevices> streams_now;
extern constinit thread_local cudaStreamCaptureMode mode_now;
extern constinit thread_local cudaError_t last_error;

// Keeps the error for `cudaGetLastError`, and returns it.
cudaError_t fail(cudaError_t error);

int device_of(std::uint64_t handle);

// The default stream of a device has the number 0.
Stream& stream_at(std::uint64_t handle);
Stream& stream_at(cudaStream_t stream);

void make_current(int device);

// All that was submitted to it.
void complete(std::uint64_t handle);

void complain_locked(const std::string& line);

// Calls that CUDA forbids while anything is captured, unless the thread says that it knows. A
// stream's capture is of no use afterwards.
bool forbidden(const char* call);

}  // namespace fake
