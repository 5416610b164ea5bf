// Hints about unified memory that programs pass to the driver: recorded for tests, without further
// effect.
//
// Pages do not move in the stub: a block of unified memory is host memory.

#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../state.hpp"

namespace fakecuda {
namespace {

constexpr int kPrefetch = -1;  // `Hint::advice` of a prefetch

struct Hint {
  int advice;  // a CUmem_advise, or kPrefetch
  uint64_t address;
  uint64_t bytes;
  int device;  // -1: the host
};

std::vector<Hint>& hints() {
  static auto* all = new std::vector<Hint>;
  return *all;
}

CUresult note(int advice, CUdeviceptr address, size_t bytes, CUdevice place) {
  const Guard guard(state_mutex());
  if (!is_managed(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (place < CU_DEVICE_CPU || place >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
  hints().push_back({advice, address, bytes, place});
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;

// Drivers export these functions under their plain names; the headers of CUDA 13 define macros for
// them.
#undef cuMemAdvise
#undef cuMemPrefetchAsync
extern "C" CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                                CUdevice place) {
  return note(static_cast<int>(advice), address, bytes, place);
}

extern "C" CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice place,
                                       CUstream) {
  return note(kPrefetch, address, bytes, place);
}

// Return a driver function by name: its version 2 if there is one, else version 1.
CUresult cuGetProcAddress(const char* name, void** function, int, cuuint64_t,
                          CUdriverProcAddressQueryResult* found) {
  *function = dlsym(RTLD_DEFAULT, (std::string(name) + "_v2").c_str());
  if (*function == nullptr) *function = dlsym(RTLD_DEFAULT, name);
  if (found != nullptr) {
    *found =
        *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// Copy hint number `at` to `out`: advice (-1 for a prefetch), address, bytes, device (-1 for the
// host). Return 0 if there is no such hint.
extern "C" int fakecuda_hint(size_t at, int64_t* out) {
  const Guard guard(state_mutex());
  if (at >= hints().size()) return 0;
  const Hint& hint = hints()[at];
  out[0] = hint.advice;
  out[1] = static_cast<int64_t>(hint.address);
  out[2] = static_cast<int64_t>(hint.bytes);
  out[3] = hint.device;
  return 1;
}
