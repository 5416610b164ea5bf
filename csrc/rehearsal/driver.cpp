// Stub of the driver, for programs that load libcuda.so.1 themselves. A function with a counterpart
// in the runtime calls the stub of the runtime.

#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "state.hpp"

namespace fakecuda {
namespace {

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

// Driver and runtime number their common errors equally.
CUresult as_driver(cudaError_t error) {
  return static_cast<CUresult>(error);
}

int nothing() {
  return 0;
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;

// --- driver only --------------------------------------------------------------------------------

CUresult cuDeviceGet(CUdevice* device, int number) {
  *device = number;
  return number >= 0 && number < device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int* count) {
  *count = device_count();
  return CUDA_SUCCESS;
}

// The stub has no export tables. NVRTC, which PyTorch uses to compile kernels at run time, requests
// a table, and works without it.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
      *value = supports_virtual_memory();
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      break;
  }
  return as_driver(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = has_context(device);
  return CUDA_SUCCESS;
}

// A context is the number of its device plus one, so it is never null.
static CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device) + 1);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  use_context(device);
  *context = context_of(device);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = has_context(current_device()) ? context_of(current_device()) : nullptr;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  const auto number = reinterpret_cast<uintptr_t>(context);
  return number ? as_driver(cudaSetDevice(static_cast<int>(number) - 1)) : CUDA_SUCCESS;
}

static thread_local std::vector<CUcontext> contexts;  // the stack below the current context

CUresult cuCtxPushCurrent(CUcontext context) {
  CUcontext before;
  cuCtxGetCurrent(&before);
  contexts.push_back(before);
  return cuCtxSetCurrent(context);
}

CUresult cuCtxPopCurrent(CUcontext* popped) {
  if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (popped) cuCtxGetCurrent(popped);
  const CUcontext before = contexts.back();
  contexts.pop_back();
  return cuCtxSetCurrent(before);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  cudaPointerAttributes found;
  cudaPointerGetAttributes(&found, pointer(address));
  if (found.type == cudaMemoryTypeUnregistered) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
    *static_cast<int*>(value) = found.device;
  else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
    *static_cast<CUdeviceptr*>(value) = address;
  else if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
    *static_cast<unsigned*>(value) =
        found.type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  else
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

// --- counterparts of runtime functions ----------------------------------------------------------

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return as_driver(
      cudaMemcpyAsync(pointer(to), pointer(from), bytes, cudaMemcpyDeviceToDevice, stream));
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream) {
  return as_driver(cudaMemsetAsync(pointer(address), value, bytes, stream));
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return as_driver(
      cudaStreamIsCapturing(stream, reinterpret_cast<cudaStreamCaptureStatus*>(status)));
}

// --- driver functions by name -------------------------------------------------------------------

static cudaError_t entry_point(const char* name, void** function,
                               cudaDriverEntryPointQueryResult* found) {
  const std::string plain = name;
  for (const std::string& candidate : {plain, plain + "_v2", plain + "_v3"})
    if ((*function = dlsym(RTLD_DEFAULT, candidate.c_str()))) break;
  // Never return null: torch looks up all functions that it might call, and calls few of them.
  if (!*function) *function = reinterpret_cast<void*>(&nothing);
  if (found) *found = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* found) {
  return entry_point(name, function, found);
}

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                        unsigned long long,
                                                        cudaDriverEntryPointQueryResult* found) {
  return entry_point(name, function, found);
}
