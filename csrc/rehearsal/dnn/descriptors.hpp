// Descriptors of cuDNN's backend interface: generic maps of attributes.
//
//   operation --in--> graph --in--> heuristics --results--> engine configurations --> plan
//       `-- tensors: type, dimensions, strides                  `-- workspace size
//
// Programs set attributes by number, and read them back unchanged. Attributes that cuDNN would
// derive, mainly workspaces, are computed in workspaces.cpp. The stub uses the kinds and attributes
// below. Their numbers belong to cuDNN's published interface and do not change between versions, so
// no header of cuDNN is needed.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace fakecuda::dnn {

enum Kind : int {
  kEngine = 2,
  kEngineConfiguration = 3,
  kHeuristics = 4,
  kPlan = 5,
  kConvolutionForward = 10,
  kConvolutionBackwardFilter = 11,
  kConvolutionBackwardData = 12,
};

enum Attribute : int {
  kHeuristicsMode = 200,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kConfigurationEngine = 300,
  kConfigurationWorkspace = 303,
  kConfigurationSharedMemory = 304,
  kPlanConfiguration = 401,
  kPlanWorkspace = 402,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kBackwardDataW = 709,
  kBackwardDataX = 710,
  kBackwardDataY = 711,
  kBackwardFilterW = 715,
  kBackwardFilterX = 716,
  kBackwardFilterY = 717,
  kGraphOperations = 801,
  kTensorType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kPackWorkspace = 1003,
  kEngineGraph = 1300,
  kEngineNumericalNote = 1303,
};

enum AttributeType : int { kIsDescriptor = 15 };

enum DataType : int { kFloat = 0, kDouble = 1, kHalf = 2, kBfloat16 = 9 };

// Return the bytes of an element.
size_t bytes_of(int data_type);

struct Descriptor;
using Shared = std::shared_ptr<const Descriptor>;

// Value of an attribute: plain bytes, or copies of descriptors as they were when it was set.
struct Value {
  int64_t count = 0;
  std::vector<char> bytes = {};
  std::vector<Shared> descriptors = {};
};

struct Descriptor {
  int kind = 0;
  std::map<int, Value> values = {};

  // Return the value of an attribute; `descriptor` and `number` return its first element. If the
  // attribute is not set, return null (`find`, `descriptor`), `otherwise`, or nothing (`numbers`).
  const Value* find(int attribute) const;
  Shared descriptor(int attribute) const;
  int64_t number(int attribute, int64_t otherwise) const;
  std::vector<int64_t> numbers(int attribute) const;

  void set_number(int attribute, int64_t number);
  void set_descriptors(int attribute, std::vector<Shared> descriptors);
};

// Tensor descriptor of cuDNN's older interface. PyTorch reads it back for weights of recurrent
// networks.
struct PlainTensor {
  int type = 0;
  std::vector<int> dimensions = {};
  std::vector<int> strides = {};

  // Set type and dimensions, with strides of a contiguous tensor.
  void set(int data_type, std::vector<int> of) {
    type = data_type;
    dimensions = std::move(of);
    strides.assign(dimensions.size(), 1);
    for (size_t at = dimensions.size(); at-- > 1;) strides[at - 1] = strides[at] * dimensions[at];
  }
};

// Return the engine configurations that cuDNN's heuristics would offer for a graph, the best first.
std::vector<Shared> configurations(const Shared& graph);

// Record a workspace in use: of a plan that runs, or of a recurrent network.
void note_workspace(size_t bytes);

// Record that a convolution's plan runs with a workspace of `bytes` at `address`.
void note_workspace(const Descriptor& plan, size_t bytes, int64_t address);

}  // namespace fakecuda::dnn
