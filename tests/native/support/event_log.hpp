// Events by number. Numbers only grow, and events that are neither pending nor held are forgotten.
//
//     event     4  5  6  7  8 ...
//     pending   .  .  x  .  x       work before it is still to be done
//     held      .  x  x  .  x       its recorder has not discarded it
//               └ forgotten

#pragma once

#include <cstdint>
#include <deque>

#include "pages/device.hpp"

namespace pgmo::test {

class EventLog {
 public:
  using Event = pages::Event;

  // Record a new pending event. `held`: whether its recorder will discard it.
  Event record(bool held) {
    states_.push_back(static_cast<std::uint8_t>(held ? kPending | kHeld : kPending));
    return first_ + states_.size() - 1;
  }

  bool pending(Event event) const { return has(event, kPending); }
  bool held(Event event) const { return has(event, kHeld); }
  void complete(Event event) { drop(event, kPending); }
  void discard(Event event) { drop(event, kHeld); }

 private:
  static constexpr std::uint8_t kPending = 1;
  static constexpr std::uint8_t kHeld = 2;

  bool has(Event event, std::uint8_t state) const {
    return event >= first_ && event - first_ < states_.size() &&
           (states_[event - first_] & state) != 0;
  }
  void drop(Event event, std::uint8_t state) {
    std::uint8_t& left = states_[event - first_];
    left = static_cast<std::uint8_t>(left & ~state);
    for (; !states_.empty() && states_.front() == 0; ++first_) states_.pop_front();
  }

  std::deque<std::uint8_t> states_;
  Event first_ = 1;
};

}  // namespace pgmo::test
