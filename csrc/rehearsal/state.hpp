// State shared by the parts of the stub: devices, streams and the lock.
//
//   hold(stream)            a hold: work submitted from now on does not finish
//        |
//   stream.waits  --record-->  event.waits  --wait-->  other stream.waits
//
// All work finishes at once, unless it waits for a hold. An event is ready when all holds that it
// inherited from its stream are released; streams that wait for the event inherit them.

#pragma once

#include <cuda_runtime_api.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace fakecuda {

// One lock for all state, because the stub measures memory, not time. It is recursive, so that
// driver functions can call their runtime counterparts.
using Guard = std::lock_guard<std::recursive_mutex>;
std::recursive_mutex& everything();

// --- errors and devices -------------------------------------------------------------------------

// Store the error for cudaGetLastError, like the real runtime, and return it.
cudaError_t fail(cudaError_t error);

int device_count();
int current_device();

// Limits of a multiprocessor: bytes of shared memory, threads, and blocks.
struct Limits {
  int shared;
  int threads;
  int blocks;
};

// Properties of each card except memory. The defaults are those of an H100, so that torch picks the
// kernels (and workspaces) of a large card. An empty name is replaced by one per device.
struct Card {
  std::string name;
  int major = 9;
  int minor = 0;
  int multiprocessors = 132;
  Limits limits{};
};

const Card& the_card();

// Create the device's context, which happens at its first use.
void use_context(int device);
bool has_context(int device);

// --- memory -------------------------------------------------------------------------------------

constexpr size_t kGranularity = size_t{2} << 20;

// Return the bytes of each card; charge or refund bytes of one. `charge` returns false if too few
// are free.
size_t card_bytes();
bool charge(int device, size_t bytes);
void refund(int device, size_t bytes);
size_t charged(int device);

// Charge the memory of a context to its card: FAKECUDA_CONTEXT.
void charge_context(int device);

// Map addresses whose pages use no memory until they are written, aligned to at least kGranularity.
void* map_pages(size_t bytes, int protection, size_t alignment = kGranularity);
void unmap_pages(void* address, size_t bytes);

// Register a range for cudaPointerGetAttributes, or remove the one that begins there.
void know_range(void* begin, size_t bytes, cudaMemoryType type, int device);
void forget_range(void* begin);

// Return whether a range lies within one block of unified memory.
bool is_managed(uintptr_t begin, size_t bytes);

// --- virtual memory -----------------------------------------------------------------------------

// Physical memory: a range of a card's file, or a whole file of its own.
struct FileRange {
  int file;  // negative: none
  off_t begin;
  size_t bytes;
  int device;
  bool own;
};

FileRange take_range(int device, size_t bytes);
void give_back_range(const FileRange& range);

// Copy the content of a range into a file that can be exported.
FileRange own_file(const FileRange& range);

// Return the memory behind a descriptor exported by any process. The caller keeps the descriptor.
FileRange from_descriptor(int descriptor);
bool same_file(int one, int other);

bool supports_virtual_memory();
bool is_mapped(const void* address);

// Return whether some of these bytes are reserved addresses without a mapping.
bool lacks_memory(const void* begin, size_t bytes);

// A part of a mapping, and the bytes of the handle's memory that it shows.
struct MappedPart {
  uint64_t mapping;
  uint64_t handle;
  size_t begin;
  size_t end;
};

std::vector<MappedPart> mapped_parts(const void* begin, size_t bytes);

// Return the number of the latest mapping; numbers increase.
uint64_t newest_map();

// --- streams ------------------------------------------------------------------------------------

using Hold = std::shared_ptr<bool>;  // true once released
using Waits = std::vector<Hold>;

bool finished(Waits& waits);
void finish(Waits& waits);

// Memory that work reads or writes.
struct Access {
  const void* begin;
  size_t bytes;
  bool writes;
};

// Work submitted to a stream. The accesses of kernels are unknown.
struct Work {
  std::function<void()> run;
  std::vector<Access> accesses = {};
  bool kernel = false;
};

struct Capture {
  unsigned long long id;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  struct Stream* origin;
  bool active = true;
  bool invalid = false;
  std::vector<Work> work;
};

// For each stream, the number of its last pending work that precedes the owner of the clock.
using Clock = std::map<uint64_t, uint64_t>;

struct Stream {
  int device;
  int priority;
  uint64_t number;
  Waits waits = {};
  Clock after = {};
  Hold held = nullptr;
  std::shared_ptr<Capture> capture = nullptr;

  bool capturing() const { return capture && capture->active; }
};

// Return the stream of a handle; null and the two special handles mean the current device's default
// stream.
Stream& find_stream(cudaStream_t handle);

// Run the work now, or record it if the stream is being captured.
void submit(cudaStream_t stream, Work work);

// Submit a kernel, which does nothing.
void launch(cudaStream_t stream);

// Return whether the real runtime would refuse a "potentially unsafe" call during a capture, such
// as cudaMalloc or cudaEventQuery. If so, the capture is invalid from here on, as with the real
// runtime.
bool breaks_capture();

// Finish all pending work of a device.
void finish_device(int device);

// --- order --------------------------------------------------------------------------------------

// The driver's mappings are not ordered by streams: before memory is unmapped, or given to another
// stream, its use must have ended. Violations are counted but never cause an error, as the real
// driver reports none. Work is pending if its stream waited for a hold when it was submitted, and
// that hold is not released. A violation is:
//
//   1. to unmap a mapping that a pending copy or set reads or writes,
//   2. to submit a copy or a set of bytes that a pending one of another stream uses, through any
//      address, if either writes and the later stream does not wait for an event recorded after
//      the earlier work,
//   3. to unmap a mapping that existed when a pending kernel was submitted, on a device with
//      access to it.
//
// The first two are certain. The third may be a false alarm, because the accesses of a kernel are
// unknown, so it is counted separately. An allocator that keeps an event per stream that used a
// page, and unmaps the page after cudaEventQuery returns cudaSuccess, never violates 1 and 2. It
// does not violate 3 either, if no other stream of the device is held meanwhile. Mapping a handle
// at a second address is always allowed; rule 2 checks its use. Products of cuBLAS, and calls that
// copy or set without a stream, are not checked.

// Return whether the stream has no pending work; if so, clear its clock.
bool idle(Stream& stream);

// Merge another clock into a clock.
void come_after(Clock& clock, const Clock& other);

void note_work(Stream& stream, const Work& work);
void note_unmapping(uint64_t mapping, const std::vector<int>& devices_with_access);

}  // namespace fakecuda
