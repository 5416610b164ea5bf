#include "pages/pool/program_order.hpp"

#include <algorithm>
#include <new>

namespace pgmo::pages {
namespace {

// Maximum number of known events. Above it, new events are ignored: more waits count as added.
constexpr std::size_t kMostEvents = 1 << 16;

}  // namespace

void ProgramOrder::add(Clock& clock, const Clock& other) noexcept {
  std::transform(clock.begin(), clock.end(), other.begin(), clock.begin(),
                 [](std::uint64_t one, std::uint64_t two) { return std::max(one, two); });
}

ProgramOrder::Clock* ProgramOrder::clock_of(std::uint32_t stream) noexcept {
  try {
    return &clocks_[stream];
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void ProgramOrder::recorded(std::uint32_t stream, std::uint64_t event,
                            std::uint64_t number) noexcept {
  Clock* const clock = clock_of(stream);
  if (clock == nullptr) return forgotten(event);
  if (stream < kMostStreams) {
    (*clock)[stream] = number;
    if (since_[stream] == 0) since_[stream] = number;
  }
  try {
    if (events_.size() < kMostEvents) {
      events_[event] = *clock;
    } else if (const auto known = events_.find(event); known != events_.end()) {
      known->second = *clock;
    }
  } catch (const std::bad_alloc&) {
    forgotten(event);
  }
}

void ProgramOrder::waited(std::uint32_t stream, std::uint64_t event,
                          std::uint64_t number) noexcept {
  if (stream < kMostStreams) given(stream, number);
  const auto known = events_.find(event);
  Clock* const clock = clock_of(stream);
  if (known != events_.end() && clock != nullptr) add(*clock, known->second);
}

void ProgramOrder::done(std::uint32_t stream, std::uint64_t number) noexcept {
  if (const Clock* const clock = clock_of(stream)) add(host_, *clock);
  if (stream < kMostStreams) host_[stream] = std::max(host_[stream], number);
}

void ProgramOrder::event_done(std::uint64_t event) noexcept {
  if (const auto known = events_.find(event); known != events_.end()) add(host_, known->second);
}

void ProgramOrder::all_done(std::uint64_t number) noexcept {
  host_.fill(number);
}

bool ProgramOrder::implies(Stream stream, Stream other, std::uint64_t number) const noexcept {
  if (host_[other] >= number) return true;
  const auto clock = clocks_.find(stream);
  return clock != clocks_.end() && clock->second[other] >= number;
}

void ProgramOrder::made_to_wait(Stream stream, Stream other, std::uint64_t number) noexcept {
  if (Clock* const clock = clock_of(stream)) {
    (*clock)[other] = std::max((*clock)[other], number);
  }
}

}  // namespace pgmo::pages
