// Records events in the order in which they happen.
//
//     request 0  request 1  free 0  record  request 2  wait  shared 2  step  request 3  free 2 ...
//
// A block's number is the number of its request, counted from the start of the recording. Requests
// of zero bytes do not occur. numpy reads the same event layout: see pgmo/profiler/recording.py.

#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "types.hpp"

namespace pgmo {

struct Event {
  // Kinds from kRecord on order streams, with the values of pgmo_engine.h.
  enum Kind : std::uint8_t {
    kRequest = 0,
    kFree = 1,
    kStep = 2,
    kShared = 3,
    kRecord = 4,
    kWait = 5,
    kStreamDone = 6,
    kEventDone = 7,
    kDeviceDone = 8,
    kOrderLost = 9
  };

  Kind kind;
  std::uint8_t in_gap = 0;  // of a request: the framework had idle memory for it
  std::uint16_t thread;
  std::int32_t tag;
  std::uint32_t block;
  std::uint32_t reserved = 0;
  Bytes bytes;  // kinds from kRecord on: the event's number
  std::uint64_t stream;
};
static_assert(sizeof(Event) == 32);

// Identifies the tagger that defines a tag's meaning. 0: none.
using TagGeneration = std::uint64_t;

// Return a generation that was not used before.
TagGeneration next_tag_generation() noexcept;

// Set the tag of the calling thread, which Python calls around an operator to mark the origin of
// its blocks. -1: unknown. An operator may outlast its tagger if another thread ends the iteration,
// so a recorder accepts only tags of the generation that it expects.
void set_thread_tag(std::int32_t tag, TagGeneration generation) noexcept;

class Recorder {
 public:
  static constexpr std::uint32_t kNoBlock = ~0u;

  // Limits the events to 1 GiB: a loop that never ends an iteration must not exhaust memory.
  static constexpr std::size_t kMostEvents = std::size_t{1} << 25;

  bool active() const noexcept { return active_; }
  bool truncated() const noexcept { return truncated_; }
  std::uint32_t epoch() const noexcept { return epoch_; }
  const std::vector<Event>& events() const noexcept { return events_; }

  // Totals of all recordings, including those already discarded.
  std::uint64_t requests() const noexcept { return requests_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  void expect_tags(TagGeneration generation) noexcept { generation_ = generation; }

  void start() noexcept;
  void stop() noexcept { active_ = false; }
  void clear() noexcept;

  // Like `clear`, but the caller frees the memory of the events, which takes long.
  std::vector<Event> take() noexcept;

  // Return the number of the new block; kNoBlock if the memory for recording is exhausted.
  std::uint32_t request(Bytes bytes, std::uint64_t stream, bool in_gap = false) noexcept;
  void free(std::uint32_t block) noexcept;
  void step() noexcept;

  // Record that another stream uses the block, too.
  void shared(std::uint32_t block) noexcept;

  // Record an event that orders streams: a kind from kRecord on.
  void ordered(Event::Kind kind, std::uint64_t stream, std::uint64_t event) noexcept;

 private:
  bool append(const Event& event) noexcept;

  std::vector<Event> events_;
  std::uint32_t blocks_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t bytes_ = 0;  // sum over `requests_`
  std::uint32_t epoch_ = 0;
  TagGeneration generation_ = 0;
  bool active_ = false;
  bool truncated_ = false;
};

}  // namespace pgmo
