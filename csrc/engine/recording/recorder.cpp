#include "engine/recording/recorder.hpp"

#include <atomic>
#include <new>

#include "checks.hpp"

namespace pgmo {
namespace {

struct Tag {
  std::int32_t number = -1;
  TagGeneration generation = 0;
};
thread_local Tag current_tag;

// Return the number of the calling thread. Threads are numbered in order of their first event,
// which is more readable in a profile than system ids.
std::uint16_t thread_number() noexcept {
  static std::atomic<std::uint16_t> next{0};
  thread_local const std::uint16_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

TagGeneration next_tag_generation() noexcept {
  static std::atomic<TagGeneration> latest{0};
  return ++latest;
}

void set_thread_tag(std::int32_t tag, TagGeneration generation) noexcept {
  current_tag = {tag, generation};
}

void end_thread_tag() noexcept {
  current_tag = {};
}

void Recorder::start() noexcept {
  clear();
  active_ = true;
}

// Drop all events and start a new epoch.
void Recorder::clear() noexcept {
  events_.clear();
  blocks_ = 0;
  truncated_ = false;
  ++epoch_;
}

std::vector<Event> Recorder::take() noexcept {
  std::vector<Event> events;
  events.swap(events_);
  clear();
  return events;
}

std::uint32_t Recorder::request(Bytes bytes, std::uint64_t stream, bool in_gap) noexcept {
  const std::int32_t tag = current_tag.generation == generation_ ? current_tag.number : -1;
  if (!append({.kind = Event::kRequest,
               .in_gap = in_gap,
               .tag = tag,
               .block = blocks_,
               .bytes = bytes,
               .stream = stream})) {
    return kNoBlock;
  }
  ++requests_;
  bytes_ += static_cast<std::uint64_t>(bytes);
  return blocks_++;
}

void Recorder::free(std::uint32_t block) noexcept {
  PGMO_ASSERT(block < blocks_);
  append({.kind = Event::kFree, .block = block});
}

void Recorder::step() noexcept {
  append({.kind = Event::kStep});
}

void Recorder::shared(std::uint32_t block) noexcept {
  PGMO_ASSERT(block < blocks_);
  append({.kind = Event::kShared, .block = block});
}

void Recorder::ordered(Event::Kind kind, std::uint64_t stream, std::uint64_t event) noexcept {
  append({.kind = kind, .bytes = static_cast<Bytes>(event), .stream = stream});
}

// Append an event of the calling thread. Return false if the recording is truncated.
bool Recorder::append(Event event) noexcept {
  if (truncated_) return false;
  event.thread = thread_number();
  try {
    if (events_.size() < kMostEvents) {
      events_.push_back(event);
      return true;
    }
  } catch (const std::bad_alloc&) {
    // Record no more events: the program needs the host's memory more than the recording does.
  }
  truncated_ = true;
  return false;
}

}  // namespace pgmo
