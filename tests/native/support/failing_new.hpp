// An operator new that fails on demand, to test code that runs out of memory.
//
// Include this file in one source file of a program. Only an allocation of the calling thread
// fails, and only the one that was armed.

#pragma once

#include <cstdlib>
#include <new>

namespace pgmo::test {

inline thread_local int allocations_until_failure = -1;  // below zero: no allocation fails
inline thread_local bool allocation_failed = false;

// Scope in which one allocation fails, after `after` successful ones.
class FailingAllocation {
 public:
  explicit FailingAllocation(int after) {
    allocation_failed = false;
    allocations_until_failure = after;
  }
  ~FailingAllocation() { allocations_until_failure = -1; }
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  bool happened() const { return allocation_failed; }
};

inline void* allocate_or_fail(std::size_t bytes) {
  if (allocations_until_failure >= 0 && allocations_until_failure-- == 0) {
    allocation_failed = true;
    throw std::bad_alloc();
  }
  void* memory = std::malloc(bytes != 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

inline void* allocate_or_fail(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  if (allocations_until_failure >= 0 && allocations_until_failure-- == 0) {
    allocation_failed = true;
    throw std::bad_alloc();
  }
  void* memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace pgmo::test

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return pgmo::test::allocate_or_fail(bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return pgmo::test::allocate_or_fail(bytes, alignment);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return pgmo::test::allocate_or_fail(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
