// Estimate of the workspaces of convolutions, because cuDNN computes them only on a card.
//
// Kernels for tensor cores need the memory format channels-last. Other tensors are first converted,
// into the workspace: input, filter and output, once each. Channels of two-byte types are padded to
// a multiple of eight. A convolution with a 1x1 filter and no stride is a matrix product, which
// needs no conversion; the filter's gradient is summed per sample, in float32. Kernels without
// tensor cores compute implicit products, which need almost no workspace. The heuristics always
// offer a kernel without tensor cores, too. PyTorch uses it if the first kernel's workspace does
// not fit.
//
// The estimates were compared with cuDNN 9.19 on an H200. They ignore additional workspace for
// split sums of other gradients.

#include <algorithm>
#include <cstdlib>
#include <map>
#include <vector>

#include "../state.hpp"
#include "descriptors.hpp"

namespace fakecuda::dnn {
namespace {

constexpr int64_t kTensorCore = 0;  // kEngineNumericalNote: the engine uses tensor cores

struct Tensor {
  int type;
  std::vector<int64_t> dimensions, strides;

  int64_t count() const {
    int64_t product = 1;
    for (const int64_t dimension : dimensions) product *= dimension;
    return product;
  }
  int64_t bytes() const { return count() * static_cast<int64_t>(bytes_of(type)); }

  // Return the bytes after conversion, with channels padded for tensor cores.
  int64_t converted() const {
    if (type == kFloat || dimensions.size() < 2 || !dimensions[1]) return bytes();
    return bytes() / dimensions[1] * ((dimensions[1] + 7) / 8 * 8);
  }

  // Return whether all spatial dimensions are 1.
  bool one_place() const {
    return std::all_of(dimensions.begin() + std::min<size_t>(2, dimensions.size()),
                       dimensions.end(), [](int64_t length) { return length == 1; });
  }

  // Return whether the memory format is channels-last, or equal to it because there is one channel
  // or one place.
  bool channels_last() const {
    if (dimensions.size() < 3 || strides.size() != dimensions.size()) return true;
    int64_t places = 1;
    for (size_t at = 2; at < dimensions.size(); ++at) places *= dimensions[at];
    return strides[1] == 1 || places == 1 || dimensions[1] == 1;
  }
};

Tensor tensor(const Shared& operation, int attribute) {
  const Shared found = operation->descriptor(attribute);
  if (!found) return {};
  return {static_cast<int>(found->number(kTensorType, kFloat)), found->numbers(kTensorDimensions),
          found->numbers(kTensorStrides)};
}

struct Convolution {
  Tensor x, w, y;  // input, filter, output
  bool of_filter;  // whether the result is the filter's gradient
};

// Read a convolution from its operation. Return false if the operation is not a convolution.
bool read(const Shared& operation, Convolution& found) {
  switch (operation->kind) {
    case kConvolutionForward:
      found = {tensor(operation, kForwardX), tensor(operation, kForwardW),
               tensor(operation, kForwardY), false};
      return true;
    case kConvolutionBackwardData:
      found = {tensor(operation, kBackwardDataX), tensor(operation, kBackwardDataW),
               tensor(operation, kBackwardDataY), false};
      return true;
    case kConvolutionBackwardFilter:
      found = {tensor(operation, kBackwardFilterX), tensor(operation, kBackwardFilterW),
               tensor(operation, kBackwardFilterY), true};
      return true;
    default:
      return false;
  }
}

bool has_tensor_cores(int type) {
  const int major = the_card().major;
  return type == kHalf ? major >= 7 : (type == kFloat || type == kBfloat16) && major >= 8;
}

// Return whether each place of the output depends only on the same place of the input: a matrix
// product.
bool is_product(const Convolution& one) {
  const auto &in = one.x.dimensions, &out = one.y.dimensions;
  return in.size() > 2 && in.size() == out.size() && one.w.one_place() &&
         std::equal(in.begin() + 2, in.end(), out.begin() + 2);
}

// Return the workspace in bytes of a kernel for tensor cores.
int64_t on_tensor_cores(const Convolution& one) {
  if (one.w.dimensions.size() > 1 && one.w.dimensions[1] == 1)
    return 0;  // depthwise, or one channel
  int64_t bytes = 0;
  for (const Tensor* part : {&one.x, &one.w, &one.y})
    if (!part->channels_last()) bytes += part->converted();
  if (!is_product(one)) return bytes;
  return one.of_filter ? std::min(bytes, one.x.dimensions[0] * one.w.count() * 4) : 0;
}

// Return cuDNN's own limit of workspaces in bytes. The environment variable is in MiB.
int64_t most() {
  static const int64_t bytes = [] {
    const char* text = std::getenv("CUDNN_CONV_WSCAP_DBG");
    return text ? std::strtoll(text, nullptr, 10) << 20 : INT64_MAX;
  }();
  return bytes;
}

Shared configuration(const Shared& graph, int64_t workspace, bool tensor_cores) {
  auto engine = std::make_shared<Descriptor>(Descriptor{.kind = kEngine});
  engine->set_descriptors(kEngineGraph, {graph});
  if (tensor_cores) {
    const auto note = static_cast<int>(kTensorCore);
    const auto* bytes = reinterpret_cast<const char*>(&note);
    engine->values[kEngineNumericalNote] = {.count = 1, .bytes = {bytes, bytes + sizeof note}};
  }
  auto made = std::make_shared<Descriptor>(Descriptor{.kind = kEngineConfiguration});
  made->set_descriptors(kConfigurationEngine, {engine});
  made->set_number(kConfigurationWorkspace, workspace);
  made->set_number(kConfigurationSharedMemory, 0);
  return made;
}

size_t largest = 0;  // bytes of the largest workspace in use so far

// Use of a workspace: its address, its bytes, and the number of the convolution.
struct Used {
  int64_t address, bytes, convolution;
};
constexpr size_t kMostUsed = size_t{1} << 20;  // uses beyond this number are not recorded
std::vector<Used> used;

// Return the number of a plan's convolution. Convolutions with equal tensors have one number,
// because PyTorch selects one plan for all of them.
int64_t number_of(const Descriptor& plan) {
  static std::map<std::vector<int64_t>, int64_t> numbers;
  const Shared configuration = plan.descriptor(kPlanConfiguration);
  const Shared engine = configuration ? configuration->descriptor(kConfigurationEngine) : nullptr;
  const Shared graph = engine ? engine->descriptor(kEngineGraph) : nullptr;
  const Shared operation = graph ? graph->descriptor(kGraphOperations) : nullptr;
  Convolution found;
  std::vector<int64_t> key;
  if (operation && read(operation, found)) {
    key.push_back(operation->kind);
    for (const Tensor* part : {&found.x, &found.w, &found.y}) {
      key.push_back(part->type);
      key.insert(key.end(), part->dimensions.begin(), part->dimensions.end());
      key.insert(key.end(), part->strides.begin(), part->strides.end());
    }
  }
  return numbers.try_emplace(std::move(key), static_cast<int64_t>(numbers.size())).first->second;
}

}  // namespace

std::vector<Shared> configurations(const Shared& graph) {
  std::vector<Shared> offered;
  const Value* operations = graph ? graph->find(kGraphOperations) : nullptr;
  Convolution found;
  if (operations && operations->descriptors.size() == 1 &&
      read(operations->descriptors.front(), found) && has_tensor_cores(found.w.type)) {
    const int64_t workspace = on_tensor_cores(found);
    if (workspace <= most()) offered.push_back(configuration(graph, workspace, true));
  }
  offered.push_back(configuration(graph, 0, false));
  return offered;
}

void note_workspace(size_t bytes) {
  const Guard guard(state_mutex());
  largest = std::max(largest, bytes);
}

void note_workspace(const Descriptor& plan, size_t bytes, int64_t address) {
  note_workspace(bytes);
  const Guard guard(state_mutex());
  if (bytes && used.size() < kMostUsed)
    used.push_back({address, static_cast<int64_t>(bytes), number_of(plan)});
}

}  // namespace fakecuda::dnn

// Return the bytes of the largest workspace in use so far, with reserves of recurrent networks.
extern "C" size_t fakecuda_dnn_workspace() {
  const fakecuda::Guard guard(fakecuda::state_mutex());
  return fakecuda::dnn::largest;
}

// Copy use number `at` of a convolution's workspace to `out`: address, bytes, number of the
// convolution. Return 0 if there is no such use.
extern "C" int fakecuda_dnn_used(size_t at, int64_t* out) {
  const fakecuda::Guard guard(fakecuda::state_mutex());
  if (at >= fakecuda::dnn::used.size()) return 0;
  const auto& one = fakecuda::dnn::used[at];
  out[0] = one.address;
  out[1] = one.bytes;
  out[2] = one.convolution;
  return 1;
}
