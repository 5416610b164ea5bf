// Tracks the progress of streams without an event for each freed block.
//
//     stream 1   ──free──free───▲─────free──▲──────free──▶
//                   1     1     e1      2    e2      3           the mark of a free: its stream and
//                                                                the number of the next event
//
// A completed event implies that all earlier work on its stream is completed. Hence a mark is only
// a number, and an event is recorded only on demand. Events of all streams share one sequence of
// numbers. `Marks` stores the marks of several streams as a set of streams and the latest number.

#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <mutex>

#include "pages/device.hpp"
#include "pages/pool/program_order.hpp"

namespace pgmo::pages {

// Marks of several streams: uses of memory that must be completed or waited for.
struct Marks {
  std::uint64_t streams = 0;  // one bit each
  std::uint64_t number = 0;

  bool empty() const noexcept { return streams == 0; }

  void add(const Marks& other) noexcept {
    streams |= other.streams;
    if (other.number > number) number = other.number;
  }

  Marks on(Stream stream) const noexcept {
    return (streams & bit(stream)) != 0 ? Marks{bit(stream), number} : Marks{};
  }
  Marks elsewhere(Stream stream) const noexcept { return {streams & ~bit(stream), number}; }

  static std::uint64_t bit(Stream stream) noexcept { return std::uint64_t{1} << stream; }
};

// The latest mark of each stream, with one number per stream. `Marks` has one number for all
// streams, so waiting for a `Marks` may take longer.
class LatestUses {
 public:
  void add(const Marks& marks) noexcept {
    for (std::uint64_t rest = marks.streams; rest != 0; rest &= rest - 1) {
      std::uint64_t& number = numbers_[static_cast<std::size_t>(std::countr_zero(rest))];
      if (marks.number > number) number = marks.number;
    }
    streams_ |= marks.streams;
  }
  std::uint64_t streams() const noexcept { return streams_; }
  Marks on(Stream stream) const noexcept { return {Marks::bit(stream), numbers_[stream]}; }

 private:
  std::uint64_t streams_ = 0;
  std::array<std::uint64_t, kMostStreams> numbers_{};
};

// Marks and events of all streams of a device.
class Clocks {
 public:
  // `state` guards the members, and is never held during a device call. The device and `state` must
  // outlive this object.
  Clocks(DeviceDriver& device, std::mutex& state) : device_(device), state_(state) {}

  // --- requires `state` -------------------------------------------------------------------------

  // Return marks of all work submitted to these streams so far.
  Marks now(std::uint64_t streams) noexcept;

  // Return whether the marks are known to be completed. Does not query the device.
  bool completed(const Marks& marks) const noexcept;

  // Record that work is submitted to a stream.
  void given(Stream stream) noexcept { program_.given(stream, next_); }

  // Note a call by which the program orders its streams; see program_order.hpp.
  enum class Ordered : std::uint8_t {
    kRecorded,
    kWaited,
    kStreamDone,
    kEventDone,
    kAllDone,
    kLost
  };
  void ordered(Ordered what, std::uint32_t stream, std::uint64_t event) noexcept;

  // Add to the bytes freed since the stream's last event. Return the sum.
  Bytes freed(Stream stream, Bytes bytes) noexcept { return lines_[stream].freed += bytes; }

  // --- requires that `state` is not held; only record() may be called concurrently --------------

  // Record an event on this stream, after all its marks. Return false on failure.
  bool record(Stream stream) noexcept;

  // Query which events are completed. Record an event on streams with marks after their last event.
  void catch_up() noexcept;

  // Make a stream wait for uses on other streams. Return false on failure.
  bool wait(Stream stream, const LatestUses& waits) noexcept;

  std::uint64_t events() const noexcept { return events_; }  // requires `state`
  std::uint64_t waits() const noexcept { return waits_; }

  // Return the number of waits that were not implied by the program's own order of streams.
  std::uint64_t added() const noexcept { return added_; }

 private:
  struct Recorded {
    std::uint64_t number;
    Event event;
    std::uint64_t as_late = 0;  // number of a program's event after the same work, or `number`
  };

  struct Line {
    std::uint64_t marked = 0;    // number of the last mark
    std::uint64_t recorded = 0;  // number of the last event
    std::uint64_t completed = 0;
    Bytes freed = 0;
    std::deque<Recorded> pending;
  };

  // Return an event number: once an event of the stream with this or a higher number is completed,
  // the marks on the stream are, too. Waiting beyond the stream's last mark would gain nothing.
  std::uint64_t needed(const Line& line, const Marks& marks) const noexcept;
  bool wait_for(Stream stream, Stream other, const Marks& marks) noexcept;

  template <typename Visit>
  static void for_each(std::uint64_t streams, Visit&& visit);

  DeviceDriver& device_;
  std::mutex& state_;
  std::array<Line, kMostStreams> lines_;
  std::uint64_t seen_ = 0;  // streams that have a mark
  std::uint64_t next_ = 1;  // number of the next event
  std::uint64_t events_ = 0;
  std::uint64_t waits_ = 0;
  std::uint64_t added_ = 0;
  ProgramOrder program_;
};

}  // namespace pgmo::pages
