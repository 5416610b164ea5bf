// Streams and events. Work finishes at once, unless a test holds a stream.

#include <algorithm>
#include <vector>

#include "state.hpp"

namespace fakecuda {
namespace {

struct CudaEvent {
  int device;
  Waits waits = {};
  Clock after = {};
  std::shared_ptr<Capture> capture = nullptr;
};

Stream* new_stream(int device, int priority) {
  static uint64_t next = 0;
  return new Stream{device, priority, ++next};
}

CudaEvent& find_event(cudaEvent_t handle) {
  return *reinterpret_cast<CudaEvent*>(handle);
}

bool ignores_waits = false;

// Return all streams. The default streams come first, one per device.
std::vector<Stream*>& streams() {
  static auto* all = [] {
    auto* made = new std::vector<Stream*>;
    for (int device = 0; device < device_count(); ++device) made->push_back(new_stream(device, 0));
    return made;
  }();
  return *all;
}

// Add the holds of `from` that are not released.
void inherit(Waits& waits, const Waits& from) {
  for (const Hold& hold : from)
    if (!*hold && std::find(waits.begin(), waits.end(), hold) == waits.end()) waits.push_back(hold);
}

}  // namespace

bool finished(Waits& waits) {
  std::erase_if(waits, [](const Hold& hold) { return *hold; });
  return waits.empty();
}

void finish(Waits& waits) {
  for (const Hold& hold : waits) *hold = true;
  waits.clear();
}

Stream& find_stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
    return *streams()[static_cast<size_t>(current_device())];
  return *reinterpret_cast<Stream*>(handle);
}

void submit(cudaStream_t handle, Work work) {
  const Guard guard(state_mutex());
  Stream& stream = find_stream(handle);
  use_context(stream.device);
  if (stream.capturing()) {
    stream.capture->work.push_back(std::move(work));
    return;
  }
  note_work(stream, work);
  work.run();
}

void launch(cudaStream_t stream) {
  submit(stream, {[] {}, {}, true});
}

void finish_device(int device) {
  const Guard guard(state_mutex());
  for (Stream* stream : streams())
    if (stream->device == device) finish(stream->waits);
}

}  // namespace fakecuda

using namespace fakecuda;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned, int priority) {
  const Guard guard(state_mutex());
  use_context(current_device());
  streams().push_back(new_stream(current_device(), priority));
  *handle = reinterpret_cast<cudaStream_t>(streams().back());
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* handle) {
  return cudaStreamCreateWithPriority(handle, 0, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return cudaStreamCreateWithPriority(handle, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const Guard guard(state_mutex());
  std::erase(streams(), &find_stream(handle));
  delete &find_stream(handle);
  return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  const Guard guard(state_mutex());
  *priority = find_stream(handle).priority;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -1;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Guard guard(state_mutex());
  Stream& stream = find_stream(handle);
  if (stream.capturing()) {
    stream.capture->invalid = true;
    return fail(cudaErrorStreamCaptureUnsupported);
  }
  return finished(stream.waits) ? cudaSuccess : fail(cudaErrorNotReady);
}

// Waiting for held work would take forever, so a wait releases the hold.
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const Guard guard(state_mutex());
  Stream& stream = find_stream(handle);
  if (stream.capturing()) {
    stream.capture->invalid = true;
    return fail(cudaErrorStreamCaptureUnsupported);
  }
  finish(stream.waits);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (breaks_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  finish_device(current_device());
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  const Guard guard(state_mutex());
  Stream& stream = find_stream(handle);
  CudaEvent& awaited = find_event(event);
  if (ignores_waits) return cudaSuccess;
  inherit(stream.waits, awaited.waits);
  if (!finished(awaited.waits)) come_after(stream.after, awaited.after);
  // A stream that waits for captured work joins the capture.
  const auto& capture = awaited.capture;
  if (capture && capture->active) stream.capture = capture;
  return cudaSuccess;
}

// Host functions run at once, even on a held stream: torch does not depend on their time.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  submit(stream, {[=] { function(data); }});
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data,
                                  unsigned) {
  function(stream, cudaSuccess, data);
  return cudaSuccess;
}

// --- events -------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  use_context(current_device());
  *event = reinterpret_cast<cudaEvent_t>(new CudaEvent{current_device()});
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Guard guard(state_mutex());
  delete &find_event(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  const Guard guard(state_mutex());
  Stream& stream = find_stream(handle);
  CudaEvent& recorded = find_event(event);
  if (recorded.device != stream.device) return fail(cudaErrorInvalidResourceHandle);
  idle(stream);
  recorded.waits = stream.waits;
  recorded.after = stream.after;
  recorded.capture = stream.capturing() ? stream.capture : nullptr;
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (breaks_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  const Guard guard(state_mutex());
  return finished(find_event(event).waits) ? cudaSuccess : fail(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Guard guard(state_mutex());
  finish(find_event(event).waits);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return cudaSuccess;
}

// --- for tests ----------------------------------------------------------------------------------

extern "C" {

// Set whether streams ignore waits for events, which simulates an allocator that forgets to wait.
void fakecuda_ignore_waits(int on) {
  const Guard guard(state_mutex());
  ignores_waits = on != 0;
}

// Hold a stream: its later work does not finish until the stream is released or the host waits.
void fakecuda_hold(cudaStream_t handle) {
  const Guard guard(state_mutex());
  Stream& stream = find_stream(handle);
  if (stream.held && !*stream.held) return;
  stream.held = std::make_shared<bool>(false);
  stream.waits.push_back(stream.held);
}

void fakecuda_release(cudaStream_t handle) {
  const Guard guard(state_mutex());
  Stream& stream = find_stream(handle);
  if (stream.held) *stream.held = true;
}
}
