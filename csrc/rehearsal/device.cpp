// Devices, their properties, and errors.

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "state.hpp"

namespace fakecuda {

namespace {
thread_local int device = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<uint64_t> contexts{0};  // one bit each
}  // namespace

std::recursive_mutex& everything() {
  // Never destroyed: threads of torch still call when static objects go.
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

cudaError_t fail(cudaError_t error) {
  last_error = error;
  return error;
}

int device_count() {
  static const int count = [] {
    const char* text = std::getenv("FAKECUDA_DEVICES");
    return text ? std::atoi(text) : 1;
  }();
  return count;
}

int current_device() {
  return device;
}

void use_context(int device) {
  contexts |= uint64_t{1} << device;
}

bool has_context(int device) {
  return contexts >> device & 1;
}

}  // namespace fakecuda

using namespace fakecuda;

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

// The figures of an H100, so that torch picks the kernels (and their workspaces) of a large card.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  if (number < 0 || number >= device_count()) return fail(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "fakecuda %d", number);
  properties->uuid.bytes[0] = static_cast<char>(number + 1);
  properties->totalGlobalMem = card_bytes();
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = 132;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->sharedMemPerBlock = 49152;
  properties->sharedMemPerBlockOptin = 232448;
  properties->sharedMemPerMultiprocessor = 233472;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->l2CacheSize = 50 << 20;
  properties->pciBusID = number;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 49152;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 232448;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    case cudaDevAttrConcurrentManagedAccess: {
      const char* text = std::getenv("FAKECUDA_MANAGED");
      *value = text == nullptr || std::atoi(text) != 0;
      break;
    }
    default:
      *value = 1;  // nearly all others ask whether something is supported
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

// --- kernels: they exist, and do nothing --------------------------------------------------------

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion =
      90;  // CUB refuses ones that it never heard of
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

// What `kernel<<<...>>>` compiles to since CUDA 13; no public header declares them.
cudaError_t __cudaGetKernel(void** kernel, const void* function) {
  *kernel = const_cast<void*>(function);
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(void*, dim3, dim3, void**, size_t, cudaStream_t stream) {
  launch(stream);
  return cudaSuccess;
}
}
