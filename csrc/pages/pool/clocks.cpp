#include "pages/pool/clocks.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace pgmo::pages {

template <typename Visit>
void Clocks::for_each(std::uint64_t streams, Visit&& visit) {
  for (; streams != 0; streams &= streams - 1) {
    visit(static_cast<Stream>(std::countr_zero(streams)));
  }
}

Marks Clocks::now(std::uint64_t streams) noexcept {
  for_each(streams, [&](Stream stream) { lines_[stream].marked = next_; });
  seen_ |= streams;
  return {streams, next_};
}

bool Clocks::completed(const Marks& marks) const noexcept {
  bool all = true;
  for_each(marks.streams, [&](Stream stream) {
    const Line& line = lines_[stream];
    all = all && line.completed >= needed(line, marks);
  });
  return all;
}

std::uint64_t Clocks::needed(const Line& line, const Marks& marks) const noexcept {
  return std::min(line.marked, marks.number);
}

void Clocks::ordered(Ordered what, std::uint32_t stream, std::uint64_t event) noexcept {
  switch (what) {
    case Ordered::kRecorded:
      return program_.recorded(stream, event, next_++);
    case Ordered::kWaited:
      return program_.waited(stream, event, next_);
    case Ordered::kStreamDone:
      return program_.done(stream, next_++);
    case Ordered::kEventDone:
      return program_.event_done(event);
    case Ordered::kAllDone:
      return program_.all_done(next_++);
    case Ordered::kLost:
      return program_.lost();
  }
}

bool Clocks::record(Stream stream) noexcept {
  std::uint64_t number = 0;
  std::uint64_t as_late = 0;
  {
    const std::lock_guard guard(state_);
    number = next_++;
    as_late = program_.as_late(stream, number);
    lines_[stream].freed = 0;
  }
  const Event event = device_.record(stream);
  if (event == 0) return false;
  bool noted = true;
  {
    const std::lock_guard guard(state_);
    Line& line = lines_[stream];
    ++events_;
    try {
      auto at = line.pending.end();
      while (at != line.pending.begin() && std::prev(at)->number > number) --at;
      line.pending.insert(at, {number, event, as_late});
      line.recorded = std::max(line.recorded, number);
    } catch (const std::bad_alloc&) {
      noted = false;
    }
  }
  if (!noted) device_.discard(event);
  return noted;
}

void Clocks::catch_up() noexcept {
  std::uint64_t seen = 0;
  {
    const std::lock_guard guard(state_);
    seen = seen_;
  }
  for_each(seen, [&](Stream stream) {
    Line& line = lines_[stream];
    for (bool asked = false;;) {
      Recorded first{0, 0};
      bool recorded = true;
      {
        const std::lock_guard guard(state_);
        if (!line.pending.empty()) first = line.pending.front();
        recorded = line.recorded >= line.marked;
      }
      if (first.event == 0 || !device_.completed(first.event)) {
        if (recorded || asked) return;
        asked = true;
        if (!record(stream)) return;
        if (first.event != 0) return;  // the new event is pending, too, because an earlier one is
        continue;
      }
      {
        const std::lock_guard guard(state_);
        // An earlier event may have been inserted meanwhile.
        const auto at = std::find_if(line.pending.begin(), line.pending.end(),
                                     [&](const Recorded& one) { return one.event == first.event; });
        line.pending.erase(at);
        line.completed = std::max(line.completed, first.number);
      }
      device_.discard(first.event);
    }
  });
}

bool Clocks::wait(Stream stream, const LatestUses& waits) noexcept {
  bool all = true;
  for_each(waits.streams(),
           [&](Stream other) { all = all && wait_for(stream, other, waits.on(other)); });
  return all;
}

// Make a stream wait for the marks of another stream. Return false on failure.
bool Clocks::wait_for(Stream stream, Stream other, const Marks& marks) noexcept {
  const Line& line = lines_[other];
  for (bool recorded = false;; recorded = true) {
    Event event = 0;
    {
      const std::lock_guard guard(state_);
      const std::uint64_t number = needed(line, marks);
      if (line.completed >= number) return true;
      for (const Recorded& one : line.pending) {
        if (one.number < number) continue;
        event = one.event;
        added_ += !program_.implies(stream, other, one.as_late);
        program_.made_to_wait(stream, other, one.number);
        ++waits_;
        break;
      }
    }
    if (event != 0) return device_.wait(stream, event);
    if (recorded || !record(other)) return false;
  }
}

}  // namespace pgmo::pages
