// Devices, their properties, errors, and launches of kernels.

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "state.hpp"

namespace fakecuda {

namespace {
thread_local int device = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<uint64_t> contexts{0};  // one bit per device

// Return the limits of a multiprocessor by compute capability. Source: CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability".
Limits limits_of(int major, int minor) {
  constexpr int kKib = 1024;
  if (major < 7) return {64 * kKib, 2048, 32};
  if (major == 7) return minor < 5 ? Limits{96 * kKib, 2048, 32} : Limits{64 * kKib, 1024, 16};
  if (major == 8 && minor == 0) return {164 * kKib, 2048, 32};
  if (major == 8) return {100 * kKib, 1536, minor == 9 ? 24 : 16};
  return major < 12 ? Limits{228 * kKib, 2048, 32} : Limits{100 * kKib, 1536, 24};
}
}  // namespace

std::recursive_mutex& state_mutex() {
  // Never destroyed: threads of torch still make calls during static destruction.
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

const CardProperties& the_card() {
  static const CardProperties card = [] {
    CardProperties read;
    if (const char* name = std::getenv("FAKECUDA_NAME")) read.name = name;
    if (const char* text = std::getenv("FAKECUDA_CAPABILITY"))
      std::sscanf(text, "%d.%d", &read.major, &read.minor);
    read.multiprocessors = static_cast<int>(from_environment("FAKECUDA_MULTIPROCESSORS", 132));
    read.limits = limits_of(read.major, read.minor);
    return read;
  }();
  return card;
}

cudaError_t fail(cudaError_t error) {
  last_error = error;
  return error;
}

int device_count() {
  static const auto count = static_cast<int>(from_environment("FAKECUDA_DEVICES", 1));
  return count;
}

size_t from_environment(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

int current_device() {
  return device;
}

void use_context(int device) {
  const uint64_t bit = uint64_t{1} << device;
  if (!(contexts.fetch_or(bit) & bit)) charge_context(device);
}

bool has_context(int device) {
  return contexts >> device & 1;
}

}  // namespace fakecuda

using namespace fakecuda;

// Bytes of shared memory per block: by default, and reserved by the system.
static constexpr int kSharedPerBlock = 48 << 10;
static constexpr int kSharedReserved = 1 << 10;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* number) {
  *number = device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int number) {
  if (number < 0 || number >= device_count()) return fail(cudaErrorInvalidDevice);
  device = number;
  use_context(number);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  if (number < 0 || number >= device_count()) return fail(cudaErrorInvalidDevice);
  const CardProperties& card = the_card();
  *properties = {};
  if (card.name.empty())
    std::snprintf(properties->name, sizeof properties->name, "fakecuda %d", number);
  else
    std::snprintf(properties->name, sizeof properties->name, "%s", card.name.c_str());
  properties->uuid.bytes[0] = static_cast<char>(number + 1);
  properties->totalGlobalMem = card_bytes();
  properties->major = card.major;
  properties->minor = card.minor;
  properties->multiProcessorCount = card.multiprocessors;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = card.limits.threads;
  properties->maxBlocksPerMultiProcessor = card.limits.blocks;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->sharedMemPerBlock = kSharedPerBlock;
  properties->sharedMemPerBlockOptin = static_cast<size_t>(card.limits.shared - kSharedReserved);
  properties->sharedMemPerMultiprocessor = static_cast<size_t>(card.limits.shared);
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->l2CacheSize = 50 << 20;
  properties->pciBusID = number;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const CardProperties& card = the_card();
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = card.multiprocessors;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = card.limits.threads;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = card.limits.blocks;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kSharedPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = card.limits.shared - kSharedReserved;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = card.limits.shared;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = card.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = card.minor;
      break;
    case cudaDevAttrConcurrentManagedAccess:
      *value = from_environment("FAKECUDA_MANAGED", 1) != 0;
      break;
    default:
      *value = 1;  // nearly all other attributes state whether a feature is supported
  }
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int number) {
  std::snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", number);
  return cudaSuccess;
}

extern "C" int fakecuda_has_context(int number) {
  return has_context(number);
}

// --- errors -------------------------------------------------------------------------------------

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  return last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    default:
      return "an error of the stub CUDA runtime";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : cudaGetErrorName(error);
}

// --- kernels, which do nothing ------------------------------------------------------------------

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 90;  // CUB rejects unknown versions
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 8;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int,
                                                                   size_t, unsigned) {
  *blocks = 8;
  return cudaSuccess;
}

cudaError_t cudaGetSymbolAddress(void** address, const void*) {
  static char somewhere[1 << 16];
  *address = somewhere;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t stream) {
  launch(stream);
  return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void*, void**) {
  launch(configuration->stream);
  return cudaSuccess;
}

extern "C" {

// Functions that `kernel<<<...>>>` calls since CUDA 13. No public header declares them.
cudaError_t __cudaGetKernel(void** kernel, const void* function) {
  *kernel = const_cast<void*>(function);
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(void*, dim3, dim3, void**, size_t, cudaStream_t stream) {
  launch(stream);
  return cudaSuccess;
}
}
