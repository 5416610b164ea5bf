// Errors of earlier requests that other threads still hold, with the tensors in their frames.
//
// A request fails in a backward pass; the error reaches the program, which tries a smaller batch.
// Autograd's thread of the device drops the error, too, but needs the GIL for that. So a request
// that fails while such an error lives waits for it to go, and is tried once more.
//
// Included by out_of_memory.hpp alone.

#pragma once

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace c10::cuda::CUDACachingAllocator::pgmo {
namespace {

// How many errors live, as pgmo/error_frames.py counts them; and how long a request waits.
std::atomic<const int64_t*> errors_held{nullptr};
std::atomic<uint32_t> error_patience_ms{0};

// A thread that holds the GIL must not wait: other threads need it to drop their errors. It is not
// released here, since the caller may depend on it.
bool holds_gil() {
  static const auto check = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  return check == nullptr || check() != 0;
}

// Waits until fewer errors are held than now. False: there were none, or they are held for longer,
// as in an `except` clause. No lock may be held.
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
  // An error is counted no more right before its frames go, and what autograd's thread ran.
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return true;
}

}  // namespace
}  // namespace c10::cuda::CUDACachingAllocator::pgmo
