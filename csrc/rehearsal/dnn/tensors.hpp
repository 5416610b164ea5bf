// Tensor descriptor of cuDNN's older interface. PyTorch reads the descriptor back for weights of
// recurrent networks.

#pragma once

#include <vector>

namespace fakecuda::dnn {

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

}  // namespace fakecuda::dnn
