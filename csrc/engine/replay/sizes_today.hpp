// What sizes the varying requests of a plan have in this iteration, as far as it has shown them.
//
//     planned    8   [100]   [400]   [100]   64   [400]
//     came       8     30     120      30    64     ...     [100] is 30 today, so [400] is 120
//
// The size of one is known as soon as one of its class has come. Where it is not, sizes have
// changed by few ratios: of what grows with the sequence, with its square, in steps, or hardly at
// all.

#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "engine/replay/replay_plan.hpp"

namespace pgmo {

class SizesToday {
 public:
  // Refers to the plan.
  explicit SizesToday(const ReplayPlan& plan) : plan_(plan), today_(plan.size_classes(), 0) {}

  // A new iteration, or a micro-batch of another length.
  void forget() noexcept;

  // A varying request has come at this size.
  void note(SlotIndex request, RequestKey key) noexcept {
    if (today_[plan_.size_class(request)] == key_bytes(key)) {
      contradictions_ = 0;
    } else {
      note_other(request, key);
    }
  }

  // A request has come that is not of the size that is known. Whether there have been so many in a
  // row that all sizes are others by now.
  bool contradicted() noexcept;

  // Whether a request may be this one at another size than planned.
  bool varies_for(SlotIndex request, RequestKey key) const noexcept;

  // Whether it is certain by now that a request has this size today.
  bool is_known(SlotIndex request, RequestKey key) const noexcept;

  // Whether nothing is known of the size of a varying request.
  bool is_open(SlotIndex request) const noexcept { return today_[plan_.size_class(request)] == 0; }

  // Whether it has changed by a ratio that others have changed by, or by its square, as what grows
  // with that of the length.
  bool alike(SlotIndex request, RequestKey key) const noexcept;

  // Whether a request may be this one at a size that is not known yet.
  bool plausible(SlotIndex request, RequestKey key) const noexcept;

  // Whether small change is some times as much today, as all that grows with the length.
  bool may_have_grown(SlotIndex request, RequestKey key) const noexcept;

 private:
  void note_other(SlotIndex request, RequestKey key) noexcept;
  double ratio(SlotIndex request, RequestKey key) const noexcept;

  const ReplayPlan& plan_;
  std::vector<Bytes> today_;         // by size class; 0: not known
  std::array<double, 16> ratios_{};  // of varying requests to their slots
  std::size_t ratio_count_ = 0;
  int contradictions_ = 0;  // requests in a row that are not what their class is today
};

}  // namespace pgmo
