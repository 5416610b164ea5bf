#include "plugin/device_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

namespace pgmo::plugin {
namespace {

DevicePointer address_of(void* pointer) {
  return static_cast<DevicePointer>(reinterpret_cast<std::uintptr_t>(pointer));
}

void* pointer_to(DevicePointer address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

}  // namespace

void DeviceMemory::open() {
  if (is_open_.load(std::memory_order_acquire)) return;
  const std::lock_guard guard(opening_);
  if (is_open_.load(std::memory_order_relaxed)) return;
  const Driver& functions = driver();
  Context context = nullptr;
  MemoryPool pool = nullptr;
  check(functions, functions.retain_context(&context, ordinal_), "cuDevicePrimaryCtxRetain");
  check(functions, functions.default_pool(&pool, ordinal_), "cuDeviceGetDefaultMemPool");
  // Otherwise every synchronisation returns all unused memory to the system.
  std::uint64_t keep_all = std::numeric_limits<std::uint64_t>::max();
  check(functions, functions.set_pool_attribute(pool, kReleaseThreshold, &keep_all),
        "cuMemPoolSetAttribute");
  driver_ = &functions;
  context_ = context;
  pool_ = pool;
  is_open_.store(true, std::memory_order_release);
}

// The second attempt is made after the cache was emptied.
template <typename Attempt>
void* DeviceMemory::attempt_twice(std::size_t bytes, const char* call, Attempt&& attempt) {
  if (!allows(bytes)) return nullptr;
  DevicePointer address = 0;
  Result result = attempt(&address);
  if (result == kOutOfMemory) {
    empty_cache();
    result = attempt(&address);
  }
  if (result == kOutOfMemory) return nullptr;
  check(*driver_, result, call);
  return pointer_to(address);
}

void* DeviceMemory::take(std::size_t bytes, Stream stream) {
  open();
  const DriverScope scope(*driver_, context_);
  void* pointer = attempt_twice(bytes, "cuMemAllocAsync", [&](DevicePointer* address) {
    return driver_->allocate_async(address, bytes, stream);
  });
  if (pointer != nullptr) ordered_.fetch_add(bytes, std::memory_order_relaxed);
  return pointer;
}

void DeviceMemory::give(void* pointer, std::size_t bytes, Stream stream) noexcept {
  const Parked one{pointer, bytes, stream, /*is_plain=*/false};
  if (must_wait(one)) return park(one);
  const DriverScope scope(*driver_, context_);
  // A failure here is that of earlier work, or the end of the process; nothing can be done.
  (void)driver_->free_async(address_of(pointer), stream);
  ordered_.fetch_sub(bytes, std::memory_order_relaxed);
}

void DeviceMemory::give_parked() noexcept {
  if (parked_count_.load(std::memory_order_acquire) == 0) return;
  std::vector<Parked> waited;
  {
    const std::lock_guard guard(parking_);
    if (parked_.empty() || must_wait(parked_.front())) return;
    waited.swap(parked_);
    parked_count_.store(0, std::memory_order_release);
  }
  for (const Parked& one : waited) {
    if (one.is_plain) {
      give_plain(one.pointer, one.bytes);
    } else {
      give(one.pointer, one.bytes, one.stream);
    }
  }
}

void DeviceMemory::park(const Parked& one) noexcept {
  try {
    const std::lock_guard guard(parking_);
    parked_.push_back(one);
    parked_count_.store(parked_.size(), std::memory_order_release);
  } catch (const std::bad_alloc&) {
    // Lost for the process; to free it now would spoil the graph that is being captured.
  }
}

bool DeviceMemory::must_wait(const Parked& one) const noexcept {
  if (one.is_plain) return active_pools.load(std::memory_order_acquire) != 0;
  return is_capturing(one.stream);
}

void* DeviceMemory::take_plain(std::size_t bytes) {
  open();
  const DriverScope scope(*driver_, context_);
  void* pointer = attempt_twice(bytes, "cuMemAlloc", [&](DevicePointer* address) {
    return driver_->allocate(address, bytes);
  });
  if (pointer != nullptr) plain_.fetch_add(bytes, std::memory_order_relaxed);
  return pointer;
}

void DeviceMemory::give_plain(void* pointer, std::size_t bytes) noexcept {
  const Parked one{pointer, bytes, kDefaultStream, /*is_plain=*/true};
  if (must_wait(one)) return park(one);
  const DriverScope scope(*driver_, context_);
  (void)driver_->synchronize();  // other streams may use it, and cuMemFree does not promise to wait
  (void)driver_->free(address_of(pointer));
  plain_.fetch_sub(bytes, std::memory_order_relaxed);
}

void DeviceMemory::empty_cache() noexcept {
  if (!is_open_.load(std::memory_order_acquire)) return;
  const DriverScope scope(*driver_, context_);
  // The pool returns only what no pending work may still use.
  if (active_pools.load(std::memory_order_acquire) == 0) (void)driver_->synchronize();
  (void)driver_->trim_pool(pool_, 0);
}

void DeviceMemory::set_fraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) {
    throw std::runtime_error("invalid fraction of memory; it must lie between 0 and 1");
  }
  open();
  const std::size_t total = levels().total;
  const auto allowed = static_cast<std::size_t>(fraction * static_cast<double>(total));
  allowed_.store(fraction < 1 ? std::max<std::size_t>(allowed, 1) : 0, std::memory_order_relaxed);
  // What the pool keeps unused counts for others on this device, too.
  std::uint64_t keep = fraction < 1 ? allowed : std::numeric_limits<std::uint64_t>::max();
  check(*driver_, driver_->set_pool_attribute(pool_, kReleaseThreshold, &keep),
        "cuMemPoolSetAttribute");
}

bool DeviceMemory::allows(std::size_t bytes) const noexcept {
  const std::size_t allowed = allowed_.load(std::memory_order_relaxed);
  return allowed == 0 || ordered_bytes() + plain_bytes() + bytes <= allowed;
}

bool DeviceMemory::is_capturing(Stream stream) const noexcept {
  if (active_pools.load(std::memory_order_acquire) == 0) return false;
  const DriverScope scope(*driver_, context_);
  int status = 0;
  // An error says that the default stream would depend on one in capture.
  return driver_->is_capturing(stream, &status) != kSuccess || status != 0;
}

void DeviceMemory::synchronize(Stream stream) const noexcept {
  const DriverScope scope(*driver_, context_);
  if (driver_->synchronize_stream(stream) != kSuccess) (void)driver_->synchronize();
}

void DeviceMemory::synchronize() const noexcept {
  const DriverScope scope(*driver_, context_);
  (void)driver_->synchronize();
}

void* DeviceMemory::base_of(void* pointer, std::size_t* bytes) const noexcept {
  *bytes = 0;
  if (!is_open_.load(std::memory_order_acquire)) return pointer;
  const DriverScope scope(*driver_, context_);
  DevicePointer base = 0;
  const Result result = driver_->address_range(&base, bytes, address_of(pointer));
  return result == kSuccess ? pointer_to(base) : pointer;
}

DeviceMemory::Levels DeviceMemory::levels() const noexcept {
  Levels levels;
  if (!is_open_.load(std::memory_order_acquire)) return levels;
  const DriverScope scope(*driver_, context_);
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;
  (void)driver_->memory_info(&levels.free, &levels.total);
  (void)driver_->get_pool_attribute(pool_, kReservedNow, &reserved);
  (void)driver_->get_pool_attribute(pool_, kUsedNow, &used);
  levels.allowed = allowed_.load(std::memory_order_relaxed);
  levels.reserved = static_cast<std::size_t>(reserved);
  levels.used = static_cast<std::size_t>(used);
  return levels;
}

}  // namespace pgmo::plugin
