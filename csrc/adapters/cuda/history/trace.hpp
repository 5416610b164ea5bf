// Observes which CUDA events the program records and waits for: these events order its streams.
//
//     torch ──event recorded, waited for, stream synchronized──▶ GPUTrace ──▶ Trace ──▶ engine
//                                                                               └──▶ Python's trace
//
// PyTorch reports events to one receiver, `GPUTrace`. In programs that trace events in Python, the
// receiver is Python's interpreter, which takes the GIL for each event. This class replaces the
// receiver, needs no GIL, and forwards events to the replaced receiver. If Python's trace is
// activated later, PyTorch replaces this class in turn. The next request detects this, and installs
// this class again. The order of events in between is unknown, so the engine forgets earlier
// events. Events of direct CUDA calls are not seen. So pgmo may know too little order, but never
// too much.
//
// The base class has dozens of methods that no trace calls. These methods differ between versions
// of torch, so they are generated: torch_trace_methods.inc, see pgmo/allocator/build/forwarders.py.

#pragma once

#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/cuda/CUDAFunctions.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "adapters/cuda/device.hpp"
#include "engine/pgmo_engine.h"

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

class Trace final : public c10::impl::PyInterpreterVTable {
 public:
#include "torch_trace_methods.inc"

  void trace_gpu_event_record(c10::DeviceType type, uintptr_t event,
                              uintptr_t stream) const override {
    pass_on(type, PGMO_RECORDED, stream, event);
    if (const auto* next = next_.load()) (*next)->trace_gpu_event_record(type, event, stream);
  }
  void trace_gpu_event_wait(c10::DeviceType type, uintptr_t event,
                            uintptr_t stream) const override {
    pass_on(type, PGMO_WAITED, stream, event);
    if (const auto* next = next_.load()) (*next)->trace_gpu_event_wait(type, event, stream);
  }
  void trace_gpu_stream_synchronization(c10::DeviceType type, uintptr_t stream) const override {
    pass_on(type, PGMO_STREAM_DONE, stream, 0);
    if (const auto* next = next_.load()) (*next)->trace_gpu_stream_synchronization(type, stream);
  }
  void trace_gpu_event_synchronization(c10::DeviceType type, uintptr_t event) const override {
    pass_on(type, PGMO_EVENT_DONE, 0, event);
    if (const auto* next = next_.load()) (*next)->trace_gpu_event_synchronization(type, event);
  }
  void trace_gpu_device_synchronization(c10::DeviceType type) const override {
    pass_on(type, PGMO_DEVICE_DONE, 0, 0);
    if (const auto* next = next_.load()) (*next)->trace_gpu_device_synchronization(type);
  }
  void trace_gpu_event_creation(c10::DeviceType type, uintptr_t event) const override {
    if (const auto* next = next_.load()) (*next)->trace_gpu_event_creation(type, event);
  }
  void trace_gpu_event_deletion(c10::DeviceType type, uintptr_t event) const override {
    if (const auto* next = next_.load()) (*next)->trace_gpu_event_deletion(type, event);
  }
  void trace_gpu_memory_allocation(c10::DeviceType type, uintptr_t pointer) const override {
    if (const auto* next = next_.load()) (*next)->trace_gpu_memory_allocation(type, pointer);
  }
  void trace_gpu_memory_deallocation(c10::DeviceType type, uintptr_t pointer) const override {
    if (const auto* next = next_.load()) (*next)->trace_gpu_memory_deallocation(type, pointer);
  }
  void trace_gpu_stream_creation(c10::DeviceType type, uintptr_t stream) const override {
    if (const auto* next = next_.load()) (*next)->trace_gpu_stream_creation(type, stream);
  }

  // Never destroyed: a thread may still be inside a call when the trace is removed.
  static Trace& get() {
    static Trace* const only = new Trace;
    return *only;
  }

  // Return whether another receiver has replaced this one. Called at each request.
  static bool displaced() noexcept {
    const auto* const ours = listening_.load(std::memory_order_relaxed);
    return ours != nullptr &&
           c10::impl::GPUTrace::gpuTraceState.load(std::memory_order_relaxed) != ours;
  }

  // Install this trace again, and report that events were missed.
  void resume() {
    const std::lock_guard guard(resuming_);
    if (!displaced()) return;
    take_place();
    displacements_.fetch_add(1);
    if (displaced()) listening_.store(nullptr);  // it cannot be installed: stop trying
    for (Device& device : devices()) {
      (void)device.any_engine([](pgmo_engine* engine) {
        api->ordered(engine, PGMO_ORDER_LOST, 0, 0);
        return false;
      });
      if (device.pages() != nullptr) pages_api->ordered(device.pages(), PGMO_ORDER_LOST, 0, 0);
    }
  }

  std::mutex& mutex() { return resuming_; }  // for forks
  uint64_t displacements() const { return displacements_.load(); }

  // Install this trace.
  void listen() {
    if (displaced()) return resume();  // another session listens already
    take_place();
  }

  // Remove this trace, and restore the receiver that it replaced.
  void stop() {
    listening_.store(nullptr);
    const c10::impl::PyInterpreter* now = &self_;
    (void)c10::impl::GPUTrace::gpuTraceState.compare_exchange_strong(now, next_.load());
  }

 private:
  Trace() : self_(this) {}

  // Replace the current receiver. Does nothing if torch has a receiver but tracing is off.
  void take_place() {
    const c10::impl::PyInterpreter* now = c10::impl::GPUTrace::gpuTraceState.load();
    if (now == &self_ || (now != nullptr && !c10::impl::GPUTrace::haveState)) return;
    next_.store(now);
    if (!c10::impl::GPUTrace::gpuTraceState.compare_exchange_strong(now, &self_)) return;
    c10::impl::GPUTrace::haveState = true;
    listening_.store(&self_);
  }

  // Report an event of the current device to the engine and the pages.
  static void pass_on(c10::DeviceType type, int what, uintptr_t stream, uintptr_t event) noexcept {
    int current = 0;
    if (type != c10::DeviceType::CUDA || cudaGetDevice(&current) != cudaSuccess) return;
    Device* const device = device_or_null(current);
    // Work in a capture has not run yet.
    if (device == nullptr || device->pools.any()) return;
    const auto handle = reinterpret_cast<cudaStream_t>(stream);  // NOLINT: a handle as a number
    const auto number = device->streams.number_for_order(handle);
    if (!number) return;
    if (device->active()) api->ordered(device->engine, what, *number, event);
    if (device->pages() != nullptr) pages_api->ordered(device->pages(), what, *number, event);
  }

  c10::impl::PyInterpreter self_;
  std::atomic<const c10::impl::PyInterpreter*> next_{nullptr};
  std::mutex resuming_;
  std::atomic<uint64_t> displacements_{0};
  static inline std::atomic<const c10::impl::PyInterpreter*> listening_{nullptr};
};

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
