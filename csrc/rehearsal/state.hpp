// What the parts of the stub share: devices, streams and the one lock.
//
//   hold(stream)            a hold: work submitted from now on does not finish
//        |
//   stream.waits  --record-->  event.waits  --wait-->  other stream.waits
//
// Everything finishes at once, except what waits for a hold. An event is ready when all the holds
// that it inherited from its stream are released, and whatever waits for that event inherits them.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace fakecuda {

// One lock around everything: what is measured here is memory, never time. Recursive, so that a
// driver function can be its runtime twin.
using Guard = std::lock_guard<std::recursive_mutex>;
std::recursive_mutex& everything();

// --- errors and devices -------------------------------------------------------------------------

// Remembers the error for cudaGetLastError, as the real runtime does; returns it.
cudaError_t fail(cudaError_t error);

int device_count();
int current_device();

// A device's context comes with the first thing that is done there.
void use_context(int device);
bool has_context(int device);

// --- memory -------------------------------------------------------------------------------------

constexpr size_t kGranularity = size_t{2} << 20;

// Bytes of each card, and takes or gives back some of one card's; false when it has too few.
size_t card_bytes();
bool charge(int device, size_t bytes);
void refund(int device, size_t bytes);
size_t charged(int device);

// Address space whose pages cost nothing until they are written; aligned to kGranularity.
void* map_pages(size_t bytes, int protection);
void unmap_pages(void* address, size_t bytes);

// Makes a range known to cudaPointerGetAttributes, or forgets the one that begins there.
void know_range(void* begin, size_t bytes, cudaMemoryType type, int device);
void forget_range(void* begin);

// Whether a range lies within one block of unified memory.
bool is_managed(uintptr_t begin, size_t bytes);

// --- streams ------------------------------------------------------------------------------------

using Hold = std::shared_ptr<bool>;  // true once released
using Waits = std::vector<Hold>;

bool finished(Waits& waits);
void finish(Waits& waits);

struct Capture {
  unsigned long long id;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  struct Stream* origin;
  bool active = true;
  bool invalid = false;
  std::vector<std::function<void()>> work;
};

struct Stream {
  int device;
  int priority;
  Waits waits;
  Hold held;
  std::shared_ptr<Capture> capture;

  bool capturing() const { return capture && capture->active; }
};

// The handle's stream; null and the two special handles are the current device's default stream.
Stream& find_stream(cudaStream_t handle);

// Runs the work now, or notes it where the stream is being captured.
void submit(cudaStream_t stream, std::function<void()> work);

// Whether the real runtime would refuse a call that is "potentially unsafe" during a capture, such
// as cudaMalloc or cudaEventQuery. If so the capture is broken from here on, as it would be there.
bool breaks_capture();

// Finishes all that is pending on a device.
void finish_device(int device);

}  // namespace fakecuda
