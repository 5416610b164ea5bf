// Device and host memory, and copies between them.
//
// Device memory is host memory: addresses are real, and copies and sets up to a limit write bytes.
// Untouched pages use no memory, so a card of 64 GiB fits on any machine.

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include "../shared_cards.hpp"
#include "../state.hpp"

namespace fakecuda {
namespace {

constexpr int kMostDevices = 64;

struct Allocation {
  size_t bytes;
  cudaMemoryType type;
  int device;
};

// Never destroyed, like the lock.
std::map<uintptr_t, Allocation>& ranges() {
  static auto* map = new std::map<uintptr_t, Allocation>;
  return *map;
}

std::array<size_t, kMostDevices> used{}, peaks{};  // bytes of each card, by this process

// Return the free bytes of a card.
size_t left_of(int device) {
  const size_t taken = charged(device) + used_by_others(device);
  return card_bytes() - std::min(card_bytes(), taken);
}

void note_peak(int device) {
  size_t& peak = peaks.at(static_cast<size_t>(device));
  peak = std::max(peak, charged(device));
  publish_use(device, charged(device));
}

// Return the range that contains an address, or null.
const std::pair<const uintptr_t, Allocation>* find_range(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto next = ranges().upper_bound(at);
  if (next == ranges().begin()) return nullptr;
  const auto& found = *std::prev(next);
  return at < found.first + found.second.bytes ? &found : nullptr;
}

// Return whether copies and sets of this size really write. Copies and sets of more than
// FAKECUDA_COPY_LIMIT bytes do not write, so that large models leave their pages untouched.
bool within_copy_limit(size_t bytes) {
  static const size_t limit = from_environment("FAKECUDA_COPY_LIMIT", SIZE_MAX);
  return bytes <= limit;
}

void copy(void* to, const void* from, size_t bytes) {
  if (within_copy_limit(bytes)) std::memmove(to, from, bytes);
}

cudaError_t take(void** address, size_t bytes) {
  const Guard guard(state_mutex());
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
  const Guard guard(state_mutex());
  if (!address) return cudaSuccess;
  auto found = ranges().find(reinterpret_cast<uintptr_t>(address));
  if (found == ranges().end() || found->second.type == cudaMemoryTypeHost || is_mapped(address))
    return fail(cudaErrorInvalidValue);
  const Allocation range = found->second;
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
  const CardLock lock;
  size_t& so_far = used.at(static_cast<size_t>(device));
  if (bytes > left_of(device)) return false;
  so_far += bytes;
  note_peak(device);
  return true;
}

void refund(int device, size_t bytes) {
  const CardLock lock;
  used.at(static_cast<size_t>(device)) -= bytes;
  publish_use(device, charged(device));
}

// Charge the context, but at most the free memory. A larger context makes the first request fail.
void charge_context(int device) {
  static const size_t bytes = from_environment("FAKECUDA_CONTEXT", 0);
  const Guard guard(state_mutex());
  const CardLock lock;
  used.at(static_cast<size_t>(device)) += std::min(bytes, left_of(device));
  note_peak(device);
}

size_t charged(int device) {
  return used.at(static_cast<size_t>(device));
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

// Unified memory is not charged to a card: its pages would move, which is not modelled.
cudaError_t cudaMallocManaged(void** address, size_t bytes, unsigned) {
  if (breaks_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  const Guard guard(state_mutex());
  *address = bytes == 0 ? nullptr : map_pages(bytes, PROT_READ | PROT_WRITE);
  if (!*address) return fail(bytes == 0 ? cudaErrorInvalidValue : cudaErrorMemoryAllocation);
  use_context(current_device());
  know_range(*address, bytes, cudaMemoryTypeManaged, current_device());
  return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  if (breaks_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  finish_device(current_device());  // the real cudaFree waits for the device
  return give_back(address);
}

cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t) {
  return take(address, bytes);
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t) {
  return give_back(address);
}

cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  const Guard guard(state_mutex());
  use_context(current_device());
  *total = card_bytes();
  *available = left_of(current_device());
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const Guard guard(state_mutex());
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
  const Guard guard(state_mutex());
  *static_cast<uint64_t*>(value) = charged(current_device());
  return cudaSuccess;
}

// --- host memory --------------------------------------------------------------------------------

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  const Guard guard(state_mutex());
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*address) return fail(cudaErrorMemoryAllocation);
  know_range(*address, bytes, cudaMemoryTypeHost, current_device());
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* address) {
  const Guard guard(state_mutex());
  forget_range(address);
  std::free(address);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  const Guard guard(state_mutex());
  know_range(address, bytes, cudaMemoryTypeHost, current_device());
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* address) {
  const Guard guard(state_mutex());
  forget_range(address);
  return cudaSuccess;
}

// --- copies -------------------------------------------------------------------------------------

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  if (breaks_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  if (lacks_memory(to, bytes) || lacks_memory(from, bytes)) return fail(cudaErrorIllegalAddress);
  copy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (lacks_memory(to, bytes) || lacks_memory(from, bytes)) return fail(cudaErrorIllegalAddress);
  submit(stream, {[=] { copy(to, from, bytes); }, {{to, bytes, true}, {from, bytes, false}}});
  return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  const auto run = [=] {
    if (!within_copy_limit(width * height)) return;
    for (size_t row = 0; row < height; ++row)
      std::memmove(static_cast<char*>(to) + row * to_pitch,
                   static_cast<const char*>(from) + row * from_pitch, width);
  };
  const size_t to_bytes = (height - 1) * to_pitch + width;
  const size_t from_bytes = (height - 1) * from_pitch + width;
  if (lacks_memory(to, to_bytes) || lacks_memory(from, from_bytes))
    return fail(cudaErrorIllegalAddress);
  submit(stream, {run, {{to, to_bytes, true}, {from, from_bytes, false}}});
  return cudaSuccess;
}

cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  if (lacks_memory(address, bytes)) return fail(cudaErrorIllegalAddress);
  if (within_copy_limit(bytes)) std::memset(address, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  if (lacks_memory(address, bytes)) return fail(cudaErrorIllegalAddress);
  const auto run = [=] {
    if (within_copy_limit(bytes)) std::memset(address, value, bytes);
  };
  submit(stream, {run, {{address, bytes, true}}});
  return cudaSuccess;
}

// --- sharing between processes: handles can be created, but not opened --------------------------

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  const Guard guard(state_mutex());
  const auto* found = find_range(address);
  if (!found || found->second.type != cudaMemoryTypeDevice || is_mapped(address))
    return fail(cudaErrorInvalidValue);  // mapped memory can be shared only through its handle
  *handle = {};
  std::memcpy(handle->reserved, &found->first, sizeof found->first);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  return fail(cudaErrorNotSupported);
}

// Work of other processes is unknown here and counts as completed.
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t) {
  return cudaEventCreate(event);
}

// Return the bytes of a card that this process uses.
extern "C" size_t fakecuda_used(int device) {
  const Guard guard(state_mutex());
  return charged(device);
}

// Return the peak bytes that this process has used of a card, since the last reset.
extern "C" size_t fakecuda_peak(int device, int reset) {
  const Guard guard(state_mutex());
  size_t& peak = peaks.at(static_cast<size_t>(device));
  const size_t found = peak;
  if (reset) peak = charged(device);
  return found;
}

// Return the bytes of a card that all processes use together.
extern "C" size_t fakecuda_card_used(int device) {
  const Guard guard(state_mutex());
  const CardLock lock;
  return charged(device) + used_by_others(device);
}

extern "C" size_t fakecuda_card_peak(int device, int reset) {
  const Guard guard(state_mutex());
  return shares_cards() ? peak_of_all(device, reset) : fakecuda_peak(device, reset);
}

// Return the bytes of unified memory that are allocated.
extern "C" size_t fakecuda_managed() {
  const Guard guard(state_mutex());
  size_t sum = 0;
  for (const auto& [begin, range] : ranges()) {
    if (range.type == cudaMemoryTypeManaged) sum += range.bytes;
  }
  return sum;
}
