// Recorder of requests, frees, steps and stream order, in the order in which they happen.
//
//     request 0  request 1  free 0  record  request 2  wait  shared 2  step  request 3  free 2 ...
//
// A block's number is the ordinal of its request, from 0 at the start of the recording. Requests of
// zero bytes are not recorded. numpy reads this layout of events: see pgmo/profiler/recording.py.
//
// A Recorder owns its events. Its calls require the engine's lock.

#pragma once

#include <cstdint>
#include <vector>

#include "types.hpp"

namespace pgmo {

struct Event {
  // Kinds from kRecord on are calls that order streams. They have the values of pgmo_engine.h.
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

  static constexpr std::uint32_t kNoBlock = ~0u;

  Kind kind;
  std::uint8_t in_gap = 0;   // kRequest: 1 if the block lies in a gap of framework memory
  std::uint16_t thread = 0;  // number of the thread, in the order of the threads' first events
  std::int32_t tag = -1;     // kRequest: the thread's tag; -1: unknown
  std::uint32_t block = kNoBlock;  // kRequest, kFree, kShared: the block's number
  std::uint32_t reserved = 0;
  Bytes bytes = 0;  // kRequest: requested bytes; kinds from kRecord on: number of the CUDA event
  std::uint64_t stream = 0;  // kRequest and kinds from kRecord on: number of the stream
};
static_assert(sizeof(Event) == 32);

// Number of the tagger that defines the meaning of tags. 0: none.
using TagGeneration = std::uint64_t;

// Return a generation that was not used before.
TagGeneration next_tag_generation() noexcept;

// Set the tag of the calling thread's next requests; -1: unknown. Python calls this before each
// operator, so that a tag names the origin of a block. If another thread ends the iteration, an
// operator may outlast its tagger. So a recorder ignores tags of generations that it does not
// expect.
void set_thread_tag(std::int32_t tag, TagGeneration generation) noexcept;

// Set the calling thread's tag to unknown. The adapter calls this after each operator.
void end_thread_tag() noexcept;

class Recorder {
 public:
  static constexpr std::uint32_t kNoBlock = Event::kNoBlock;

  // Maximum number of events (1 GiB). A loop that never ends an iteration must not exhaust memory.
  // Later events are dropped, and the recording counts as truncated.
  static constexpr std::size_t kMostEvents = std::size_t{1} << 25;

  bool active() const noexcept { return active_; }
  bool truncated() const noexcept { return truncated_; }
  // Return the number of this recording. Numbers of blocks are valid within one epoch.
  std::uint32_t epoch() const noexcept { return epoch_; }
  const std::vector<Event>& events() const noexcept { return events_; }

  // Return the number of requests, and their bytes, in all recordings, even discarded ones.
  std::uint64_t requests() const noexcept { return requests_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  void expect_tags(TagGeneration generation) noexcept { generation_ = generation; }

  // `start` begins an empty recording. `stop` ends it and keeps its events.
  void start() noexcept;
  void stop() noexcept { active_ = false; }

  // Remove all events, start a new epoch, and return the events. The caller frees their memory
  // without the lock, because freeing takes long.
  std::vector<Event> take() noexcept;

  // Record a request, and return the number of its block; kNoBlock if the recording is truncated.
  std::uint32_t request(Bytes bytes, std::uint64_t stream, bool in_gap = false) noexcept;
  void free(std::uint32_t block) noexcept;
  void step() noexcept;

  // Record that another stream also uses the block.
  void shared(std::uint32_t block) noexcept;

  // Record a call that orders streams. `kind`: from kRecord on; `event`: number of the CUDA event.
  void ordered(Event::Kind kind, std::uint64_t stream, std::uint64_t event) noexcept;

 private:
  void clear() noexcept;
  bool append(Event event) noexcept;

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
