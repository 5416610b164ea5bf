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

// One lock around everything: what is measured here is memory, never time. Recursive, so that a
// driver function can be its runtime twin.
using Guard = std::lock_guard<std::recursive_mutex>;
std::recursive_mutex& everything();

// --- errors and devices -------------------------------------------------------------------------

// Remembers the error for cudaGetLastError, as the real runtime does; returns it.
cudaError_t fail(cudaError_t error);

int device_count();
int current_device();

// What kernels find on a multiprocessor: bytes of shared memory, and threads.
struct Limits {
  int shared;
  int threads;
};

// What programs see of each card beside its memory. By default the figures of an H100, so that
// torch picks the kernels (and their workspaces) of a large card. An empty name is one for each
// device.
struct Card {
  std::string name;
  int major = 9;
  int minor = 0;
  int multiprocessors = 132;
  Limits limits{};
};

const Card& the_card();

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

// Takes what a context takes of its card: FAKECUDA_CONTEXT.
void charge_context(int device);

// Address space whose pages cost nothing until they are written; aligned to kGranularity at least.
void* map_pages(size_t bytes, int protection, size_t alignment = kGranularity);
void unmap_pages(void* address, size_t bytes);

// Makes a range known to cudaPointerGetAttributes, or forgets the one that begins there.
void know_range(void* begin, size_t bytes, cudaMemoryType type, int device);
void forget_range(void* begin);

// Whether a range lies within one block of unified memory.
bool is_managed(uintptr_t begin, size_t bytes);

// --- virtual memory -----------------------------------------------------------------------------

// Physical memory: a range of a card's file, or the whole of a file of its own.
struct FileRange {
  int file;  // negative: there is none
  off_t begin;
  size_t bytes;
  int device;
  bool own;
};

FileRange take_range(int device, size_t bytes);
void give_back_range(const FileRange& range);

// A copy of what the range holds, in a file that can be exported.
FileRange own_file(const FileRange& range);

// The memory behind a descriptor that some process has exported; the descriptor stays with the
// caller.
FileRange from_descriptor(int descriptor);
bool same_file(int one, int other);

bool supports_virtual_memory();
bool is_mapped(const void* address);

// A part of a mapping, and which bytes of the handle's memory it shows.
struct MappedPart {
  uint64_t mapping;
  uint64_t handle;
  size_t begin;
  size_t end;
};

std::vector<MappedPart> mapped_parts(const void* begin, size_t bytes);

// The number of the latest mapping; later ones have higher numbers.
uint64_t newest_map();

// --- streams ------------------------------------------------------------------------------------

using Hold = std::shared_ptr<bool>;  // true once released
using Waits = std::vector<Hold>;

bool finished(Waits& waits);
void finish(Waits& waits);

// What a piece of work reads or writes.
struct Access {
  const void* begin;
  size_t bytes;
  bool writes;
};

// What is submitted to streams. Nobody knows what a kernel uses.
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

// For each stream the last of its pending work that one comes after.
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

// The handle's stream; null and the two special handles are the current device's default stream.
Stream& find_stream(cudaStream_t handle);

// Runs the work now, or notes it where the stream is being captured.
void submit(cudaStream_t stream, Work work);

// A kernel, which does nothing.
void launch(cudaStream_t stream);

// Whether the real runtime would refuse a call that is "potentially unsafe" during a capture, such
// as cudaMalloc or cudaEventQuery. If so the capture is broken from here on, as it would be there.
bool breaks_capture();

// Finishes all that is pending on a device.
void finish_device(int device);

// --- order --------------------------------------------------------------------------------------

// The driver's maps are not ordered by streams: whoever unmaps memory, or hands it to another
// stream, must know that nobody uses it any more. What breaks that is counted, and is never an
// error, as the real driver reports none. Work is pending if its stream waited for a hold when it
// was submitted, and that hold is not released. It is a violation
//
//   1. to unmap a mapping that a pending copy or set reads or writes,
//   2. to submit a copy or a set of bytes that a pending one of another stream uses, through
//      whichever address, if either writes and the later stream does not wait for an event recorded
//      after the earlier work,
//   3. to unmap a mapping that was there when a pending kernel was submitted, on a device with
//      access to it.
//
// The first two are certain. The third may be a false alarm, for nobody knows what a kernel uses;
// those are counted apart. An allocator that keeps an event per stream that used a page, and unmaps
// the page when cudaEventQuery says cudaSuccess, never violates 1 and 2; nor 3, if it does so while
// no other stream of the device is held. To map a handle at a second address is always allowed: it
// is the use that is checked, by 2. Not seen: products of cuBLAS, and calls that copy or set
// without a stream.

// Whether nothing is pending on the stream; if so, forgets what it came after.
bool idle(Stream& stream);

// Adds what somebody else comes after to a clock.
void come_after(Clock& clock, const Clock& other);

void note_work(Stream& stream, const Work& work);
void note_unmapping(uint64_t mapping, const std::vector<int>& devices_with_access);

}  // namespace fakecuda
