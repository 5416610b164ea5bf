// The events that a recording must have. The recording is incomplete once memory has run out.

#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.hpp"
#include "oracle.hpp"

namespace pgmo::test {

class ExpectedRecord {
 public:
  bool active() const { return active_; }
  bool complete() const { return complete_; }

  // Return the number of this recording. Each recording numbers its blocks from 0.
  std::uint32_t epoch() const { return epoch_; }

  void start() {
    active_ = complete_ = true;
    events_.clear();
    blocks_ = 0;
    ++epoch_;
  }
  void stop() { active_ = false; }
  void memory_ran_out() {
    if (active_) complete_ = false;
  }

  // Expect a request, and return the block's number.
  std::uint32_t request(std::uint64_t bytes, std::uint64_t stream) {
    events_.push_back({Event::kRequest, blocks_, static_cast<Bytes>(bytes), stream});
    return blocks_++;
  }
  void free(std::uint32_t block, std::uint32_t epoch) { note(Event::kFree, block, epoch); }
  void shared(std::uint32_t block, std::uint32_t epoch) { note(Event::kShared, block, epoch); }
  void step() {
    if (active_) events_.push_back({Event::kStep, Recorder::kNoBlock, 0, 0});
  }

  void compare(Engine& engine) const {
    if (!complete_ || !active_) return;
    const std::vector<Event> events = engine.events();
    require_equal(events.size(), events_.size(), "recorded events");
    for (std::size_t at = 0; at < events.size(); ++at) {
      require(events[at].kind == events_[at].kind && events[at].block == events_[at].block &&
                  events[at].bytes == events_[at].bytes && events[at].stream == events_[at].stream,
              "a recorded event is not what happened");
    }
  }

 private:
  struct Noted {
    Event::Kind kind;
    std::uint32_t block;
    Bytes bytes;
    std::uint64_t stream;
  };

  void note(Event::Kind kind, std::uint32_t block, std::uint32_t epoch) {
    if (active_ && block != Recorder::kNoBlock && epoch == epoch_) {
      events_.push_back({kind, block, 0, 0});
    }
  }

  bool active_ = false;
  bool complete_ = true;
  std::vector<Noted> events_;
  std::uint32_t blocks_ = 0;
  std::uint32_t epoch_ = 0;
};

}  // namespace pgmo::test
