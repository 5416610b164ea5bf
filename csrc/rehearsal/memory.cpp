// Device and host memory, and copies between them.
//
// Device memory is host memory: addresses are real, bytes copied and set are really there, and
// pages that nothing touches cost nothing, so that a 64 GiB card fits anywhere.

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include "state.hpp"

namespace fakecuda {
namespace {

constexpr int kMostDevices = 64;

struct Range {
  size_t bytes;
  cudaMemoryType type;
  int device;
};

size_t from_environment(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Never destroyed, like the lock.
std::map<uintptr_t, Range>& ranges() {
  static auto* map = new std::map<uintptr_t, Range>;
  return *map;
}

std::array<size_t, kMostDevices> used{};

// The range that contains an address, or null.
const std::pair<const uintptr_t, Range>* find_range(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto next = ranges().upper_bound(at);
  if (next == ranges().begin()) return nullptr;
  const auto& found = *std::prev(next);
  return at < found.first + found.second.bytes ? &found : nullptr;
}

// Longer copies are dropped: with FAKECUDA_COPY_LIMIT, large models leave their pages untouched.
bool really(size_t bytes) {
  static const size_t limit = from_environment("FAKECUDA_COPY_LIMIT", SIZE_MAX);
  return bytes <= limit;
}

void copy(void* to, const void* from, size_t bytes) {
  if (really(bytes)) std::memmove(to, from, bytes);
}

cudaError_t take(void** address, size_t bytes) {
  const Guard guard(everything());
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  const int device = current_device();
  if (!charge(device, bytes)) return fail(cudaErrorMemoryAllocation);
  *address = map_pages(bytes, PROT_READ | PROT_WRITE);
  if (!*address) {
    refund(device, bytes);
    return fail(cudaErrorMemoryAllocation);
  }
  know_range(*address, bytes, cudaMemoryTypeDevice, device);
  return cudaSuccess;
}

cudaError_t give_back(void* address) {
  const Guard guard(everything());
  if (!address) return cudaSuccess;
  auto found = ranges().find(reinterpret_cast<uintptr_t>(address));
  if (found == ranges().end() || found->second.type == cudaMemoryTypeHost)
    return fail(cudaErrorInvalidValue);
  const Range range = found->second;
  ranges().erase(found);
  unmap_pages(address, range.bytes);
  if (range.type == cudaMemoryTypeDevice) refund(range.device, range.bytes);
  return cudaSuccess;
}

}  // namespace

size_t card_bytes() {
  static const size_t bytes = from_environment("FAKECUDA_BYTES", size_t{64} << 30);
  return bytes;
}

bool charge(int device, size_t bytes) {
  use_context(device);
  size_t& so_far = used.at(static_cast<size_t>(device));
  if (bytes > card_bytes() - so_far) return false;
  so_far += bytes;
  return true;
}

void refund(int device, size_t bytes) {
  used.at(static_cast<size_t>(device)) -= bytes;
}

size_t charged(int device) {
  return used.at(static_cast<size_t>(device));
}

// One place after the other, so that addresses are the same in every run: where two cached blocks
// are of the same size, torch takes the one at the lower address.
void* map_pages(size_t bytes, int protection) {
  constexpr uintptr_t kBegin = uintptr_t{1} << 45, kEnd = 5 * (uintptr_t{1} << 44);
  static uintptr_t next = kBegin;
  const size_t length = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  if (length > kEnd - kBegin) return nullptr;
  if (length > kEnd - next) next = kBegin;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  while (length <= kEnd - next) {
    void* pages = mmap(reinterpret_cast<void*>(next), length, protection, flags, -1, 0);
    next += length;
    if (pages != MAP_FAILED) return pages;
    if (errno != EEXIST) return nullptr;
  }
  return nullptr;
}

void unmap_pages(void* address, size_t bytes) {
  munmap(address, (bytes + kGranularity - 1) / kGranularity * kGranularity);
}

void know_range(void* begin, size_t bytes, cudaMemoryType type, int device) {
  ranges()[reinterpret_cast<uintptr_t>(begin)] = {bytes, type, device};
}

void forget_range(void* begin) {
  ranges().erase(reinterpret_cast<uintptr_t>(begin));
}

bool is_managed(uintptr_t begin, size_t bytes) {
  const auto* found = find_range(reinterpret_cast<const void*>(begin));
  return found && found->second.type == cudaMemoryTypeManaged &&
         begin + bytes <= found->first + found->second.bytes;
}

}  // namespace fakecuda

using namespace fakecuda;

cudaError_t cudaMalloc(void** address, size_t bytes) {
  if (breaks_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  return take(address, bytes);
}

// Unified memory takes nothing of the card for good: its pages move, which is not imitated here.
cudaError_t cudaMallocManaged(void** address, size_t bytes, unsigned) {
  if (breaks_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  const Guard guard(everything());
  *address = bytes == 0 ? nullptr : map_pages(bytes, PROT_READ | PROT_WRITE);
  if (!*address) return fail(bytes == 0 ? cudaErrorInvalidValue : cudaErrorMemoryAllocation);
  use_context(current_device());
  know_range(*address, bytes, cudaMemoryTypeManaged, current_device());
  return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  if (breaks_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  finish_device(current_device());  // the real one waits for the device
  return give_back(address);
}

cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t) {
  return take(address, bytes);
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t) {
  return give_back(address);
}

cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  const Guard guard(everything());
  *total = card_bytes();
  *available = card_bytes() - charged(current_device());
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const Guard guard(everything());
  *attributes = {};
  const auto* found = find_range(address);
  if (!found) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    return cudaSuccess;
  }
  void* plain = const_cast<void*>(address);
  attributes->type = found->second.type;
  attributes->device = found->second.device;
  attributes->devicePointer = plain;
  attributes->hostPointer = found->second.type == cudaMemoryTypeHost ? plain : nullptr;
  return cudaSuccess;
}

// --- pools of the stream-ordered allocator ------------------------------------------------------

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  static std::array<char, kMostDevices> handles;
  *pool = reinterpret_cast<cudaMemPool_t>(&handles.at(static_cast<size_t>(device)));
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  const Guard guard(everything());
  *static_cast<uint64_t*>(value) = charged(current_device());
  return cudaSuccess;
}

// --- host memory --------------------------------------------------------------------------------

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  const Guard guard(everything());
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*address) return fail(cudaErrorMemoryAllocation);
  know_range(*address, bytes, cudaMemoryTypeHost, current_device());
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* address) {
  const Guard guard(everything());
  forget_range(address);
  std::free(address);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  const Guard guard(everything());
  know_range(address, bytes, cudaMemoryTypeHost, current_device());
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* address) {
  const Guard guard(everything());
  forget_range(address);
  return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}

// --- copies -------------------------------------------------------------------------------------

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  if (breaks_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  copy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  submit(stream, [=] { copy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  submit(stream, [=] { copy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
  submit(stream, [=] {
    if (!really(width * height)) return;
    for (size_t row = 0; row < height; ++row)
      std::memmove(static_cast<char*>(to) + row * to_pitch,
                   static_cast<const char*>(from) + row * from_pitch, width);
  });
  return cudaSuccess;
}

cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  if (really(bytes)) std::memset(address, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  submit(stream, [=] {
    if (really(bytes)) std::memset(address, value, bytes);
  });
  return cudaSuccess;
}

// --- sharing between processes: a handle can be had, but opened nowhere
// ---------------------------

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  const Guard guard(everything());
  const auto* found = find_range(address);
  if (!found || found->second.type != cudaMemoryTypeDevice) return fail(cudaErrorInvalidValue);
  *handle = {};
  std::memcpy(handle->reserved, &found->first, sizeof found->first);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  return fail(cudaErrorNotSupported);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  return fail(cudaErrorNotSupported);
}

extern "C" size_t fakecuda_used(int device) {
  const Guard guard(everything());
  return charged(device);
}

extern "C" size_t fakecuda_managed() {
  const Guard guard(everything());
  size_t sum = 0;
  for (const auto& [begin, range] : ranges()) {
    if (range.type == cudaMemoryTypeManaged) sum += range.bytes;
  }
  return sum;
}
