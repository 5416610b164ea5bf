// State shared by the parts of the stub CUDA runtime: devices, memory, streams, and the lock.
//
//   fakecuda_hold(stream)   a hold: work submitted from now on does not finish
//        |
//   stream.waits  --record-->  event.waits  --wait-->  other stream.waits
//
// All work finishes at once, unless it waits for a hold. Tests hold a stream to simulate work that
// takes long. An event is complete when all holds that it inherited from its stream are released.
// Streams that wait for the event inherit its holds.
//
// Sizes are in bytes. Functions for errors, contexts and properties need no lock. `map_pages`,
// `unmap_pages`, `charge_context`, `lacks_memory`, `submit`, `launch`, `breaks_capture` and
// `finish_device` take the lock. All other functions require that the caller holds it.

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
#include <vector>

namespace fakecuda {

// One lock guards all state, because the stub measures memory, not time. The lock is recursive, so
// that driver functions can call their runtime counterparts.
using Guard = std::lock_guard<std::recursive_mutex>;
std::recursive_mutex& state_mutex();

// --- errors and devices -------------------------------------------------------------------------

// Store the error for cudaGetLastError, like the real runtime, and return it.
cudaError_t fail(cudaError_t error);

int device_count();
int current_device();

// Return an environment variable as a number, or `otherwise` if it is not set.
size_t from_environment(const char* name, size_t otherwise);

// Limits of a multiprocessor: bytes of shared memory, resident threads, and resident blocks.
struct Limits {
  int shared;
  int threads;
  int blocks;
};

// Properties of the cards, which are all alike; `card_bytes` has their memory. The defaults
// describe an H100, so that torch selects the kernels and workspaces of a large card. An empty name
// stands for "fakecuda N" with the device's number.
struct CardProperties {
  std::string name;
  int major = 9;
  int minor = 0;
  int multiprocessors = 0;
  Limits limits{};
};

const CardProperties& the_card();

// Create the device's context, if there is none: each first use of a device calls this.
void use_context(int device);
bool has_context(int device);

// --- memory -------------------------------------------------------------------------------------

constexpr size_t kGranularity = size_t{2} << 20;  // of device addresses and of physical memory

// `card_bytes` returns the memory of each card. `charge` takes bytes of a card, and returns false
// if too few are free; `refund` gives them back. `charged` returns the bytes that this process has
// taken.
size_t card_bytes();
bool charge(int device, size_t bytes);
void refund(int device, size_t bytes);
size_t charged(int device);

// Charge the memory of a context (FAKECUDA_CONTEXT bytes) to its card.
void charge_context(int device);

// Map `bytes`, rounded up to kGranularity, whose pages use no memory until they are written. The
// address is aligned to at least kGranularity. Return null on failure.
void* map_pages(size_t bytes, int protection, size_t alignment = kGranularity);
void unmap_pages(void* address, size_t bytes);

// Register a range for cudaPointerGetAttributes, or remove the range that begins at `begin`.
void know_range(void* begin, size_t bytes, cudaMemoryType type, int device);
void forget_range(void* begin);

// Return whether a range lies within one block of unified memory.
bool is_managed(uintptr_t begin, size_t bytes);

// --- virtual memory -----------------------------------------------------------------------------

// Physical memory: a range of a card's file, or a whole file of its own.
struct FileRange {
  int file;  // descriptor; negative: none
  off_t begin;
  size_t bytes;
  int device;
  bool own;  // whether it is a file of its own
};

// Return an unused range of the card's file. On failure, here and below, `file` is negative.
FileRange take_range(int device, size_t bytes);
void give_back_range(const FileRange& range);

// Copy the contents of a range into a file of its own, which can be exported.
FileRange own_file(const FileRange& range);

// Return the memory behind a descriptor from any process. The caller still owns the descriptor.
FileRange from_descriptor(int descriptor);
bool same_file(int one, int other);

bool supports_virtual_memory();
bool is_mapped(const void* address);

// Return whether some of these bytes are reserved addresses where no memory is mapped. The real
// runtime reports an access there later, and all later calls fail.
bool lacks_memory(const void* begin, size_t bytes);

// A part of a mapping, and the bytes [begin, end) of the handle's memory that the part shows.
struct MappedPart {
  uint64_t mapping;
  uint64_t handle;
  size_t begin;
  size_t end;
};

// Return the parts of mappings in a range of addresses.
std::vector<MappedPart> mapped_parts(const void* begin, size_t bytes);

// Return the number of the latest mapping. Later mappings have higher numbers.
uint64_t newest_map();

// --- streams ------------------------------------------------------------------------------------

using Hold = std::shared_ptr<bool>;  // true once released
using Waits = std::vector<Hold>;

// `finished` drops released holds and returns whether none is left. `finish` releases all holds.
bool finished(Waits& waits);
void finish(Waits& waits);

// Memory that work reads or writes.
struct Access {
  const void* begin;
  size_t bytes;
  bool writes;
};

// Work submitted to a stream. Which memory kernels access is unknown.
struct Work {
  std::function<void()> run;
  std::vector<Access> accesses = {};
  bool kernel = false;
};

// A stream capture. It ends on the stream where it began (`origin`).
struct Capture {
  unsigned long long id;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  struct Stream* origin;
  bool active = true;
  bool invalid = false;
  std::vector<Work> work;
};

// Vector clock. For each stream: the number of its latest pending work that comes before the
// clock's owner (a stream or an event).
using Clock = std::map<uint64_t, uint64_t>;

struct Stream {
  int device;
  int priority;
  uint64_t number;
  Waits waits = {};     // holds that its work waits for
  Clock after = {};     // pending work that its next work comes after
  Hold held = nullptr;  // the stream's own hold
  std::shared_ptr<Capture> capture = nullptr;

  bool capturing() const { return capture && capture->active; }
};

// Return the stream of a handle. Null, cudaStreamLegacy and cudaStreamPerThread all mean the
// current device's default stream.
Stream& find_stream(cudaStream_t handle);

// Run the work now, or, if the stream is being captured, add it to the capture.
void submit(cudaStream_t stream, Work work);

// Submit a kernel, which does nothing.
void launch(cudaStream_t stream);

// Return whether a capture makes the real runtime refuse "potentially unsafe" calls of this thread,
// such as cudaMalloc or cudaEventQuery. If so, the capture becomes invalid, as with the real
// runtime.
bool breaks_capture();

void finish_device(int device);

// --- order --------------------------------------------------------------------------------------

// Streams do not order the driver's mappings: before memory is unmapped, or given to another
// stream, its use must have ended. The stub counts violations of this rule. A violation never
// causes an error, because the real driver reports none. Work is pending if its stream waited for a
// hold when it was submitted, and the hold still lasts. These are violations:
//
//   1. to unmap a mapping that a pending copy or set reads or writes,
//   2. to submit a copy or a set that conflicts with a pending copy or set of another stream: both
//      use the same bytes, through any address, and one writes. Allowed if the later stream waits
//      for an event recorded after the earlier work,
//   3. to unmap a mapping that existed when a pending kernel was submitted, on a device with
//      access to it.
//
// Violations 1 and 2 are certain. Violation 3 is counted separately, because it may be a false
// alarm: the stub does not know which memory a kernel accesses. Consider an allocator that records
// an event on each stream that used a page. It unmaps the page after cudaEventQuery has returned
// cudaSuccess for all these events. Such an allocator never causes 1 or 2, and causes 3 only while
// another stream of the device is held. Mapping a handle at a second address is always allowed; the
// use of that address is checked for 2. Products of cuBLAS, and copies and sets without a stream,
// are not checked.

// Return whether the stream has no pending work. If so, clear its clock.
bool idle(Stream& stream);

// Merge `other` into a clock: the clock's owner then also comes after all work in `other`.
void come_after(Clock& clock, const Clock& other);

// Check work that is submitted to the stream, and remember it while it is pending.
void note_work(Stream& stream, const Work& work);
// Check that a mapping may be removed.
void note_unmapping(uint64_t mapping, const std::vector<int>& devices_with_access);

}  // namespace fakecuda
