// Passes the CUDA adapter to Python as the object that torch.cuda.memory.change_current_allocator
// takes. Compiled with torch's own pybind11, so that both use the same types.

#include <c10/cuda/CUDACachingAllocator.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>

namespace py = pybind11;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;

PYBIND11_MODULE(pgmo_torch_cuda_module, module) {
  // The deleter does nothing, because the adapter is never destroyed.
  module.def("wrap", [](std::uintptr_t address) {
    return std::shared_ptr<CUDAAllocator>(reinterpret_cast<CUDAAllocator*>(address),
                                          [](CUDAAllocator*) {});
  });
}
