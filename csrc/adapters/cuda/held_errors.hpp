// Waits until earlier out-of-memory errors are dropped: each keeps the frames of its traceback
// alive, and the tensors in them.
//
// A typical case: a request fails in a backward pass, and the program catches the error and tries a
// smaller batch. Autograd's device thread also has a reference to the error, and needs the GIL to
// drop this reference. So a request that fails while an earlier error exists waits for a limited
// time until an error is dropped. Then the request is retried.
//
// Only out_of_memory.hpp includes this file.

#pragma once

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// `errors_held`: address of the number of out-of-memory errors that exist, which
// pgmo/error_frames.py counts; null: not counted. `error_patience_ms`: maximum wait in ms.
std::atomic<const int64_t*> errors_held{nullptr};
std::atomic<uint32_t> error_patience_ms{0};

// Return whether this thread holds the GIL, or Python's functions are not found. A thread with the
// GIL must not wait, because other threads need the GIL to drop errors. This thread does not
// release the GIL either, because its caller may depend on the GIL.
bool holds_gil() {
  static const auto check = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  return check == nullptr || check() != 0;
}

// Wait until fewer errors exist than at the call, and return true. Return false if no error exists,
// if this thread holds the GIL, or if no error is dropped in time, as during an `except` clause.
// The caller must hold no lock.
bool await_held_errors() {
  const int64_t* const held = errors_held.load(std::memory_order_acquire);
  const auto now = [&] { return __atomic_load_n(held, __ATOMIC_ACQUIRE); };
  if (held == nullptr || now() == 0 || holds_gil()) return false;
  using Clock = std::chrono::steady_clock;
  const auto before = now();
  const auto end = Clock::now() + std::chrono::milliseconds(error_patience_ms.load());
  while (now() >= before) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // The count drops before the frames and autograd's objects are freed, so wait a little longer.
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return true;
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
