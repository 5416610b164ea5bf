// Byte counts over the operations of a step, stored as differences between neighbours until
// `sum_up`.

#pragma once

#include <cstddef>
#include <vector>

#include "recompute/step.hpp"

namespace pgmo::recompute {

// Add `bytes` to the operations [first, last], if any; `change` has one more entry than operations.
inline void live(std::vector<Bytes>& change, Index first, Index last, Bytes bytes) {
  if (first > last) return;
  change[at(first)] += bytes;
  change[at(last) + 1] -= bytes;
}

inline void sum_up(std::vector<Bytes>& change) {
  for (std::size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
  change.pop_back();
}

}  // namespace pgmo::recompute
