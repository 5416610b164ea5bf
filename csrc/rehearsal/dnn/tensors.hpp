// The older tensor descriptor, which recurrent networks read back.

#pragma once

#include <vector>

namespace fakecuda::dnn {

struct PlainTensor {
  int type = 0;
  std::vector<int> dimensions = {};
  std::vector<int> strides = {};

  void set(int data_type, std::vector<int> of) {
    type = data_type;
    dimensions = std::move(of);
    strides.assign(dimensions.size(), 1);
    for (size_t at = dimensions.size(); at-- > 1;) strides[at - 1] = strides[at] * dimensions[at];
  }
};

}  // namespace fakecuda::dnn
