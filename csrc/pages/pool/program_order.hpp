// Tracks how the program itself orders its streams, as far as its calls are known.
//
//     stream 1   ──given──▲ e5 ─────free─▲ 7       7 is an event of pgmo, as late as e5 of the
//                          ╲                       program: the stream got no work in between
//     stream 2   ───────────wait──▶                is ordered after event 5 of stream 1, so waiting
//                                                  for 7 adds no wait to the program
//
// Vector clocks, whose components are event numbers (clocks.hpp). They decide nothing: the next
// user of a page waits in any case. They only count which waits the program implies and which pgmo
// adds. The count is not exact. Events recorded by direct CUDA calls are unknown, so waits that
// they imply count as added. Of a stream's work, only requests and waits are known: if it keeps
// using its blocks after its last event, a wait for that counts as implied. A wait that pgmo has
// added counts as the program's from then on.

#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "pages/device.hpp"

namespace pgmo::pages {

class ProgramOrder {
 public:
  // Note that a stream gets work before the event with number `next`.
  void given(Stream stream, std::uint64_t next) noexcept {
    given_[stream] = next;
    since_[stream] = 0;
  }

  // Note that the program records an event with this number, makes a stream wait for one, or has
  // waited on the host for all work given before this number. Stream numbers are arbitrary here.
  void recorded(std::uint32_t stream, std::uint64_t event, std::uint64_t number) noexcept;
  void waited(std::uint32_t stream, std::uint64_t event, std::uint64_t number) noexcept;
  void done(std::uint32_t stream, std::uint64_t number) noexcept;
  void event_done(std::uint64_t event) noexcept;
  void all_done(std::uint64_t number) noexcept;
  void forgotten(std::uint64_t event) noexcept { events_.erase(event); }

  // Note that calls were missed: events may have been recorded again on any stream, and streams may
  // have got work.
  void lost() noexcept {
    events_.clear();
    since_.fill(0);
  }

  // Return the number of an event of the program that is as late as the given one of pgmo; if there
  // is none, the given number.
  std::uint64_t as_late(Stream stream, std::uint64_t number) const noexcept {
    return since_[stream] != 0 && since_[stream] < number ? since_[stream] : number;
  }

  // Return whether the stream is ordered after that event of another stream.
  bool implies(Stream stream, Stream other, std::uint64_t number) const noexcept;

  // Note that pgmo has made the stream wait for that event.
  void made_to_wait(Stream stream, Stream other, std::uint64_t number) noexcept;

 private:
  using Clock = std::array<std::uint64_t, kMostStreams>;

  Clock* clock_of(std::uint32_t stream) noexcept;
  static void add(Clock& clock, const Clock& other) noexcept;

  std::unordered_map<std::uint32_t, Clock> clocks_;
  std::unordered_map<std::uint64_t, Clock> events_;
  Clock host_{};   // everything is ordered after this
  Clock given_{};  // number of the first event after the stream's last work
  Clock since_{};  // number of the program's first event since then; 0: none
};

}  // namespace pgmo::pages
