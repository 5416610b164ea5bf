// Jumps far ahead that may yet prove wrong.
//
//     planned    a b c d e f g h ...  p q r s t ...
//     came       a b p q x y z ...            p q tells that c to h were left out, x y z that they
//                   │                         were not: c is expected again
//                   └ origin
//
// Two requests that a plan has one after the other lead ahead, wherever they are. That is weak: in
// a network of equal layers any two are in many places, and what a program does now and then, as an
// average of its weights or pictures for a log, is made of tensors of the same sizes. So where a
// jump came from is kept until as many requests have followed it as prove it right. Each that
// proves wrong is taken back, and the next one in its iteration needs one more request in a row as
// its reason.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/replay/replay_plan.hpp"
#include "engine/statistics.hpp"
#include "engine/tuning.hpp"

namespace pgmo {

class FarJumps {
 public:
  // Where replay stood.
  struct Origin {
    SlotIndex cursor;
    Tick now;
    const ReplayPlan::End* end;
  };

  // A new iteration.
  void forget() noexcept {
    origin_.reset();
    wrong_ = 0;
  }

  // One is made. Of several in doubt the first one's origin counts: those that follow a wrong one
  // are wrong, too.
  void jumped(const Origin& from, const Counters& counters) noexcept {
    latest_ = Reading(counters);
    if (origin_) return;
    origin_ = from;
    first_ = latest_;
  }

  // Whether the requests since then contradict it.
  bool is_wrong(const Counters& counters) noexcept {
    if (!origin_) return false;
    const Reading now(counters), since_latest = now - latest_, since_first = now - first_;
    if (since_latest.answered >= tuning::kFollowedJump && since_latest.agrees()) {
      origin_.reset();
      return false;
    }
    return since_first.unknown >= tuning::kAstray && !since_first.agrees();
  }

  // Nothing is in doubt any more.
  void settle() noexcept { origin_.reset(); }

  // Of those in doubt.
  const Origin& origin() const noexcept { return *origin_; }

  // Replay is there again.
  void taken_back() noexcept {
    origin_.reset();
    ++wrong_;
  }

  // How many requests in a row have to agree with the plan before the one that leads ahead.
  std::size_t reasons() const noexcept { return std::min(1 + wrong_, tuning::kMostReasons); }

 private:
  struct Reading {
    std::uint64_t answered = 0;
    std::uint64_t unknown = 0;

    Reading() = default;
    explicit Reading(const Counters& counters) noexcept
        : answered(counters.answered()),
          unknown(counters.misses[static_cast<int>(Miss::kUnknown)]) {}
    Reading operator-(const Reading& other) const noexcept {
      Reading difference;
      difference.answered = answered - other.answered;
      difference.unknown = unknown - other.unknown;
      return difference;
    }
    bool agrees() const noexcept { return answered >= tuning::kAgreeing * unknown; }
  };

  std::optional<Origin> origin_;  // none: nothing is in doubt
  Reading first_, latest_;        // when the jumps in doubt were made
  std::size_t wrong_ = 0;         // in this iteration
};

}  // namespace pgmo
