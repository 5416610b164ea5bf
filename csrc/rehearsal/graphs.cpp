// Stream capture into graphs. A graph contains the copies, sets and (empty) kernels that were
// submitted during its capture. Each launch of the graph repeats this work.

#include <memory>
#include <vector>

#include "state.hpp"

namespace fakecuda {
namespace {

// A graph, or an executable graph.
struct Graph {
  std::shared_ptr<const std::vector<Work>> work;
};

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

std::vector<std::shared_ptr<Capture>>& captures() {
  static auto* all = new std::vector<std::shared_ptr<Capture>>;
  return *all;
}

cudaError_t information(cudaStream_t handle, cudaStreamCaptureStatus* status,
                        unsigned long long* id) {
  const Guard guard(state_mutex());
  const Stream& stream = find_stream(handle);
  *status = !stream.capturing()       ? cudaStreamCaptureStatusNone
            : stream.capture->invalid ? cudaStreamCaptureStatusInvalidated
                                      : cudaStreamCaptureStatusActive;
  if (id) *id = stream.capturing() ? stream.capture->id : 0;
  return cudaSuccess;
}

}  // namespace

bool breaks_capture() {
  const Guard guard(state_mutex());
  if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
  bool broken = false;
  for (const auto& capture : captures()) {
    const bool ours = capture->thread == std::this_thread::get_id();
    const bool forbids =
        (ours && capture->mode != cudaStreamCaptureModeRelaxed) ||
        (capture->mode == cudaStreamCaptureModeGlobal && thread_mode == capture->mode);
    if (forbids) capture->invalid = broken = true;
  }
  return broken;
}

}  // namespace fakecuda

using namespace fakecuda;

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const Guard guard(state_mutex());
  static unsigned long long next = 0;
  Stream& stream = find_stream(handle);
  // The default stream cannot be captured.
  if (&stream == &find_stream(nullptr)) return fail(cudaErrorStreamCaptureUnsupported);
  if (stream.capturing()) return fail(cudaErrorIllegalState);
  stream.capture = std::make_shared<Capture>();
  *stream.capture = {++next, mode, std::this_thread::get_id(), &stream, true, false, {}};
  captures().push_back(stream.capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const Guard guard(state_mutex());
  *graph = nullptr;
  Stream& stream = find_stream(handle);
  if (!stream.capturing() || stream.capture->origin != &stream) return fail(cudaErrorIllegalState);
  const std::shared_ptr<Capture> capture = std::move(stream.capture);
  capture->active = false;
  std::erase(captures(), capture);
  if (capture->invalid) return fail(cudaErrorStreamCaptureInvalidated);
  auto work = std::make_shared<const std::vector<Work>>(std::move(capture->work));
  *graph = reinterpret_cast<cudaGraph_t>(new Graph{std::move(work)});
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return information(stream, status, nullptr);
}

// The tested versions of torch read neither the dependencies nor the captured graph, so both
// results stay unset.
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, size_t*) {
  return information(stream, status, id);
}
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t*, const cudaGraphNode_t**,
                                     size_t*) {
  return information(stream, status, id);
}
#endif

// --- graphs -------------------------------------------------------------------------------------

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long) {
  const auto& from = *reinterpret_cast<Graph*>(graph);
  *executable = reinterpret_cast<cudaGraphExec_t>(new Graph{from});
  return cudaSuccess;
}

// PyTorch does not call this function, but CuPy does.
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(executable, graph, flags);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = reinterpret_cast<Graph*>(graph)->work->size();
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const auto work = reinterpret_cast<Graph*>(executable)->work;
  Work all{[work] {
    for (const Work& one : *work) one.run();
  }};
  for (const Work& one : *work) {
    all.accesses.insert(all.accesses.end(), one.accesses.begin(), one.accesses.end());
    all.kernel |= one.kernel;
  }
  submit(stream, std::move(all));
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<Graph*>(executable);
  return cudaSuccess;
}
