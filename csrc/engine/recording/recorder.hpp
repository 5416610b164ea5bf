// The recorder: what happened, in the order in which it happened.
//
//     request 0  request 1  free 0  record  request 2  wait  shared 2  step  request 3  free 2 ...
//
// Blocks are numbered by their request, counted from the start of the recording. Zero-byte requests
// do not occur. The layout of an event is also numpy's: see pgmo/profiler/recording.py.

#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "types.hpp"

namespace pgmo {

struct Event {
  // From kRecord on, what orders streams: as in pgmo_engine.h.
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
  Bytes bytes;  // of what orders streams: the event's number
  std::uint64_t stream;
};
static_assert(sizeof(Event) == 32);

// Says which meanings a tag has: those of one tagger. 0 is none's.
using TagGeneration = std::uint64_t;

// Another one than any before.
TagGeneration next_tag_generation() noexcept;

// Set by Python on the thread that runs an operator; says where its blocks come from. -1: nobody
// knows. An operator may outlast its tagger, when another thread ends the iteration; so a recorder
// takes only tags of the generation that it expects.
void set_thread_tag(std::int32_t tag, TagGeneration generation) noexcept;

class Recorder {
 public:
  static constexpr std::uint32_t kNoBlock = ~0u;

  // 1 GiB of them: a loop that never says where an iteration ends must not eat all memory.
  static constexpr std::size_t kMostEvents = std::size_t{1} << 25;

  bool active() const noexcept { return active_; }
  bool truncated() const noexcept { return truncated_; }
  std::uint32_t epoch() const noexcept { return epoch_; }
  const std::vector<Event>& events() const noexcept { return events_; }

  // Of all recordings, also those that are forgotten.
  std::uint64_t requests() const noexcept { return requests_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  void expect_tags(TagGeneration generation) noexcept { generation_ = generation; }

  void start() noexcept;
  void stop() noexcept { active_ = false; }
  void clear() noexcept;

  // Like `clear`, and the memory of the events is the caller's: to free it takes long.
  std::vector<Event> take() noexcept;

  // The number of the new block; kNoBlock when the memory for recording has run out.
  std::uint32_t request(Bytes bytes, std::uint64_t stream, bool in_gap = false) noexcept;
  void free(std::uint32_t block) noexcept;
  void step() noexcept;

  // The block is used on another stream, too.
  void shared(std::uint32_t block) noexcept;

  // Streams are ordered: a kind from kRecord on.
  void ordered(Event::Kind kind, std::uint64_t stream, std::uint64_t event) noexcept;

 private:
  bool append(const Event& event) noexcept;

  std::vector<Event> events_;
  std::uint32_t blocks_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t bytes_ = 0;  // summed over these
  std::uint32_t epoch_ = 0;
  TagGeneration generation_ = 0;
  bool active_ = false;
  bool truncated_ = false;
};

}  // namespace pgmo
