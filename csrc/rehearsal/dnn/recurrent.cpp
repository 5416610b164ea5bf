// Recurrent networks of cuDNN: the layout of their weights, and the memory that they keep for the
// backward pass.
//
//   layer:  [ input weights, gate by gate ][ hidden weights ][ projection ][ biases ][ biases ]
//
// Sizes of weights are exact. Two sizes are estimates. The reserve for the backward pass contains
// gates, cell state and output of each step and layer. The workspace contains the gates' inputs of
// all steps, for one layer.

#include <cstdint>

#include "descriptors.hpp"

using namespace fakecuda;

namespace {

enum Cell : int { kRelu, kTanh, kLstm, kGru };

// A network; sizes in elements. A pseudo layer is one direction of a layer.
struct Network {
  int cell = kRelu;
  int type = 0;
  bool both_ways = false;
  int64_t input = 0;
  int64_t hidden = 0;
  int64_t projected = 0;
  int64_t layers = 0;

  int64_t gates() const { return cell == kLstm ? 4 : cell == kGru ? 3 : 1; }
  int64_t directions() const { return both_ways ? 2 : 1; }
  int64_t pseudo_layers() const { return layers * directions(); }
  bool projects() const { return projected > 0 && projected < hidden; }
  int64_t output() const { return projects() ? projected : hidden; }
  int64_t input_of(int64_t pseudo_layer) const {
    return pseudo_layer < directions() ? input : output() * directions();
  }

  int64_t matrices(int64_t pseudo_layer) const {
    return gates() * hidden * (input_of(pseudo_layer) + output()) +
           (projects() ? hidden * output() : 0);
  }
  int64_t weights(int64_t pseudo_layer) const {
    return matrices(pseudo_layer) + 2 * gates() * hidden;
  }
};

// Shape of the input: steps, and sequences per batch.
struct Data {
  int64_t steps = 0;
  int64_t batch = 0;
};

const Network& network(const void* descriptor) {
  return *static_cast<const Network*>(descriptor);
}

}  // namespace

extern "C" {

int cudnnCreateRNNDescriptor(void** made) {
  *made = new Network;
  return 0;
}

int cudnnDestroyRNNDescriptor(void* descriptor) {
  delete static_cast<Network*>(descriptor);
  return 0;
}

int cudnnSetRNNDescriptor_v8(void* descriptor, int, int cell, int, int direction, int, int type,
                             int, int, int32_t input, int32_t hidden, int32_t projected,
                             int32_t layers, void*, uint32_t) {
  *static_cast<Network*>(descriptor) = {cell,   type,      direction != 0, input,
                                        hidden, projected, layers};
  return 0;
}

int cudnnCreateRNNDataDescriptor(void** made) {
  *made = new Data;
  return 0;
}

int cudnnDestroyRNNDataDescriptor(void* descriptor) {
  delete static_cast<Data*>(descriptor);
  return 0;
}

int cudnnSetRNNDataDescriptor(void* descriptor, int, int, int steps, int batch, int, const int*,
                              void*) {
  *static_cast<Data*>(descriptor) = {steps, batch};
  return 0;
}

int cudnnGetRNNWeightSpaceSize(void*, const void* descriptor, size_t* bytes) {
  const Network& of = network(descriptor);
  int64_t count = 0;
  for (int64_t layer = 0; layer < of.pseudo_layers(); ++layer) count += of.weights(layer);
  *bytes = static_cast<size_t>(count) * dnn::bytes_of(of.type);
  return 0;
}

int cudnnGetRNNWeightParams(void*, const void* descriptor, int32_t layer, size_t, char* begin,
                            int32_t number, void* matrix, char** matrix_at, void* bias,
                            char** bias_at) {
  const Network& of = network(descriptor);
  const int64_t gates = of.gates(), input = of.input_of(layer), output = of.output();
  int64_t before = 0;
  for (int64_t one = 0; one < layer; ++one) before += of.weights(one);
  const auto place = [&](int64_t count) {
    return begin + static_cast<size_t>(before + count) * dnn::bytes_of(of.type);
  };
  const auto size = [](int64_t number) { return static_cast<int>(number); };
  if (matrix) {
    auto& shown = *static_cast<dnn::PlainTensor*>(matrix);
    const int64_t of_inputs = gates * of.hidden * input;
    if (number < gates) {
      shown.set(of.type, {1, size(of.hidden), size(input)});
      *matrix_at = place(number * of.hidden * input);
    } else if (number < 2 * gates) {
      shown.set(of.type, {1, size(of.hidden), size(output)});
      *matrix_at = place(of_inputs + (number - gates) * of.hidden * output);
    } else {
      shown.set(of.type, {1, size(output), size(of.hidden)});
      *matrix_at = place(of_inputs + gates * of.hidden * output);
    }
  }
  if (bias) {
    static_cast<dnn::PlainTensor*>(bias)->set(of.type, {1, size(of.hidden), 1});
    *bias_at = place(of.matrices(layer) + number * of.hidden);
  }
  return 0;
}

int cudnnGetRNNTempSpaceSizes(void*, const void* descriptor, int trains, const void* data,
                              size_t* workspace, size_t* reserve) {
  const Network& of = network(descriptor);
  const auto& given = *static_cast<const Data*>(data);
  const int64_t of_step = given.batch * of.hidden * static_cast<int64_t>(dnn::bytes_of(of.type));
  const int64_t kept = of.gates() + (of.cell == kLstm) + 1;
  if (workspace)
    *workspace = static_cast<size_t>(given.steps * of_step * of.gates() * of.directions());
  if (reserve)
    *reserve = trains ? static_cast<size_t>(given.steps * of_step * kept * of.pseudo_layers()) : 0;
  dnn::note_workspace((workspace ? *workspace : 0) + (reserve ? *reserve : 0));
  return 0;
}
}
