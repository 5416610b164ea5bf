// Sizes of varying requests in this iteration, by size class. The engine's lock guards them.
//
//     planned    8   [100]   [400]   [100]   64   [400]      in brackets: varying requests
//     requested  8     30     120      30    64     ...     now, [100] is 30 and [400] is 120

#pragma once

#include <algorithm>
#include <vector>

#include "engine/replay/replay_plan.hpp"

namespace pgmo {

class IterationSizes {
 public:
  // Keeps a reference to the plan, which must outlive this object.
  explicit IterationSizes(const ReplayPlan& plan)
      : plan_(plan), by_class_(plan.size_classes(), 0) {}

  // Forget all sizes. Called at the start of an iteration, or of a micro-batch of another length.
  void forget() noexcept { std::fill(by_class_.begin(), by_class_.end(), 0); }

  // Note the size of a varying request. From then on it is the known size of the whole size class.
  void note(SlotIndex request, RequestKey key) noexcept {
    by_class_[plan_.size_class(request)] = key_bytes(key);
  }

  // Return whether the request is known to have this size and stream in this iteration.
  bool is_known(SlotIndex request, RequestKey key) const noexcept {
    const RequestKey planned = plan_.slot(request).key;
    if (!plan_.varying(request)) return planned == key;
    return key_stream(planned) == key_stream(key) &&
           by_class_[plan_.size_class(request)] == key_bytes(key);
  }

  // Return whether the size of this varying request is still unknown.
  bool is_open(SlotIndex request) const noexcept {
    return by_class_[plan_.size_class(request)] == 0;
  }

 private:
  const ReplayPlan& plan_;
  std::vector<Bytes> by_class_;  // by size class; 0: unknown
};

}  // namespace pgmo
