// Stub of cuDNN's handles, of its older descriptors, and of its queries of sizes.

#include <dlfcn.h>

#include <cstddef>

#include "../state.hpp"
#include "descriptors.hpp"

using namespace fakecuda;

namespace {

// Call a function of the real library, if torch has loaded it; otherwise return `otherwise`. Torch
// compares the library's version with the version that torch was built with.
template <typename Result, typename... Arguments>
Result real(const char* name, Result otherwise, Arguments... arguments) {
  void* found = nullptr;
  for (const char* library : {"libcudnn.so.9", "libcudnn.so.8"}) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle && !found) found = dlsym(handle, name);
    if (handle) dlclose(handle);
  }
  if (!found) return otherwise;
  return reinterpret_cast<Result (*)(Arguments...)>(found)(arguments...);
}

// Bytes of the states of random generators per multiprocessor: an estimate.
constexpr size_t kStatesOfMultiprocessor = 512 * 48;

}  // namespace

extern "C" {

static char something;  // all handles point to it

size_t cudnnGetVersion() {
  return real<size_t>("cudnnGetVersion", 90000);
}

size_t cudnnGetCudartVersion() {
  return real<size_t>("cudnnGetCudartVersion", CUDART_VERSION);
}

int cudnnGetProperty(int property, int* value) {
  *value = property == 0 ? 9 : 0;
  return real<int>("cudnnGetProperty", 0, property, value);
}

const char* cudnnGetErrorString(int) {
  return "an error of the stub CUDA runtime";
}

int cudnnCreate(void** handle) {
  *handle = &something;
  return 0;
}

int cudnnGetStream(void*, void** stream) {
  *stream = nullptr;
  return 0;
}

// --- opaque descriptors -------------------------------------------------------------------------

#define OPAQUE(name)                   \
  int cudnnCreate##name(void** made) { \
    *made = &something;                \
    return 0;                          \
  }

OPAQUE(FilterDescriptor)
OPAQUE(ConvolutionDescriptor)
OPAQUE(ActivationDescriptor)
OPAQUE(PoolingDescriptor)
OPAQUE(SpatialTransformerDescriptor)
OPAQUE(CTCLossDescriptor)
OPAQUE(DropoutDescriptor)

#undef OPAQUE

// --- tensors ------------------------------------------------------------------------------------

int cudnnCreateTensorDescriptor(void** made) {
  *made = new dnn::PlainTensor;
  return 0;
}

int cudnnDestroyTensorDescriptor(void* tensor) {
  delete static_cast<dnn::PlainTensor*>(tensor);
  return 0;
}

int cudnnSetTensorNdDescriptor(void* tensor, int type, int count, const int* dimensions,
                               const int* strides) {
  auto& set = *static_cast<dnn::PlainTensor*>(tensor);
  set.type = type;
  set.dimensions.assign(dimensions, dimensions + count);
  set.strides.assign(strides, strides + count);
  return 0;
}

int cudnnGetTensorNdDescriptor(const void* tensor, int room, int* type, int* count, int* dimensions,
                               int* strides) {
  const auto& found = *static_cast<const dnn::PlainTensor*>(tensor);
  *type = found.type;
  *count = static_cast<int>(found.dimensions.size());
  for (size_t at = 0; at < found.dimensions.size() && at < static_cast<size_t>(room); ++at) {
    dimensions[at] = found.dimensions[at];
    strides[at] = found.strides[at];
  }
  return 0;
}

// --- sizes --------------------------------------------------------------------------------------

int cudnnDropoutGetStatesSize(void*, size_t* bytes) {
  *bytes = kStatesOfMultiprocessor * static_cast<size_t>(the_card().multiprocessors);
  return 0;
}

// Workspaces and reserves of batch normalization are sums and masks, which count as 0 bytes.
int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void*, int, int, void*, void*, void*,
                                                             void*, void*, size_t* bytes) {
  *bytes = 0;
  return 0;
}

int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void*, int, int, void*, void*, void*, void*,
                                                      void*, void*, void*, size_t* bytes) {
  *bytes = 0;
  return 0;
}

int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void*, int, int, void*, void*,
                                                         size_t* bytes) {
  *bytes = 0;
  return 0;
}

int cudnnGetCTCLossWorkspaceSize(void*, void*, void*, const int*, const int*, const int*, int,
                                 void*, size_t* bytes) {
  *bytes = 0;
  return 0;
}

int cudnnGetCTCLossWorkspaceSize_v8(void*, int, void*, void*, void*, size_t* bytes) {
  *bytes = 0;
  return 0;
}
}
