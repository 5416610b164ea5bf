// Tracks how the program itself orders its streams, as far as its calls are known.
//
//     stream 1   ──given──▲ e5 ─────free─▲ 7       7 is an event of pgmo, as late as e5 of the
//                          ╲                       program: the stream got no work in between
//     stream 2   ───────────wait──▶                is ordered after event 5 of stream 1, so waiting
//                                                  for 7 adds no wait to the program
//
// These are vector clocks, whose components are event numbers (clocks.hpp). The clocks only feed a
// statistic: how many waits pgmo adds that the program does not imply itself. The next user of a
// page waits in any case. The count is not exact. Events recorded by direct CUDA calls are unknown,
// so waits that they imply count as added. Requests and waits of a stream are known, its kernels
// are not. If a stream uses its blocks after its last event, a wait for this use counts as implied.
// After pgmo has added a wait, the program's order includes it.

#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "pages/device.hpp"

namespace pgmo::pages {

class ProgramOrder {
 public:
  // Record that work is submitted to a stream before the event with number `next`.
  void given(Stream stream, std::uint64_t next) noexcept {
    given_[stream] = next;
    since_[stream] = 0;
  }

  // Note a call of the program that orders streams. `recorded`: it records an event. `waited`: it
  // makes a stream wait for an event. `done`, `event_done`, `all_done`: the host waits for a
  // stream, an event or all streams. `number`: number of the next event, which comes after all work
  // submitted so far. Streams may have any number here, even kMostStreams or more.
  void recorded(std::uint32_t stream, std::uint64_t event, std::uint64_t number) noexcept;
  void waited(std::uint32_t stream, std::uint64_t event, std::uint64_t number) noexcept;
  void done(std::uint32_t stream, std::uint64_t number) noexcept;
  void event_done(std::uint64_t event) noexcept;
  void all_done(std::uint64_t number) noexcept;
  void forgotten(std::uint64_t event) noexcept { events_.erase(event); }

  // Forget all events, because calls were missed: events may have been recorded again on any
  // stream, and any stream may have new work.
  void lost() noexcept {
    events_.clear();
    since_.fill(0);
  }

  // `number`: number of an event of pgmo. If the program's first event after the stream's last work
  // has a lower number, return that number. Both events then cover the same work. Otherwise return
  // `number`.
  std::uint64_t as_late(Stream stream, std::uint64_t number) const noexcept {
    return since_[stream] != 0 && since_[stream] < number ? since_[stream] : number;
  }

  // Return whether the program orders `stream` after the event with this number on `other`.
  bool implies(Stream stream, Stream other, std::uint64_t number) const noexcept;

  // Record that pgmo has made `stream` wait for the event with this number of the stream `other`.
  void made_to_wait(Stream stream, Stream other, std::uint64_t number) noexcept;

 private:
  using Clock = std::array<std::uint64_t, kMostStreams>;

  Clock* clock_of(std::uint32_t stream) noexcept;
  static void add(Clock& clock, const Clock& other) noexcept;

  std::unordered_map<std::uint32_t, Clock> clocks_;
  std::unordered_map<std::uint64_t, Clock> events_;
  Clock host_{};   // events that the host has waited for; all later work comes after them
  Clock given_{};  // number of the first event after the stream's last work
  Clock since_{};  // number of the program's first event after that work; 0: none
};

}  // namespace pgmo::pages
