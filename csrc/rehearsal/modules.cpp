// Modules that a program, such as Triton, loads through the driver. Their kernels are launched like
// all other kernels, and compute nothing.

#include <cuda.h>

#include <cstdint>

#include "state.hpp"

namespace fakecuda {
namespace {

// Attributes of all kernels, because the stub compiles no kernel. The number of registers is so low
// that no program tries variants with fewer registers.
constexpr int kRegisters = 32;
constexpr int kMostThreads = 1024;

// Return a handle for a module or function: a number, never null and never dereferenced.
template <typename Handle>
Handle next_handle() {
  const Guard guard(state_mutex());
  static uintptr_t last = 0;
  return reinterpret_cast<Handle>(++last);
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;

// Loading a module creates the device's context, which uses memory.
CUresult cuModuleLoadData(CUmodule* module, const void*) {
  use_context(current_device());
  *module = next_handle<CUmodule>();
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}

CUresult cuModuleLoad(CUmodule* module, const char*) {
  return cuModuleLoadData(module, nullptr);
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char*) {
  *function = next_handle<CUfunction>();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS                ? kRegisters
           : attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? kMostThreads
                                                                  : 0;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
  *clusters = the_card().multiprocessors;
  return CUDA_SUCCESS;
}

// The stub's kernels have no print buffer, heap or stack.
CUresult cuCtxGetLimit(size_t* value, CUlimit) {
  *value = 0;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream stream, void**, void**) {
  launch(stream);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* configuration, CUfunction, void**, void**) {
  launch(configuration->hStream);
  return CUDA_SUCCESS;
}
