// How the program itself orders its streams, as far as it is heard of.
//
//     stream 1   ──given──▲ e5 ─────free─▲ 7            7 is ours, and as good as e5: the stream
//     was
//                          ╲                            given nothing in between
//     stream 2   ───────────wait──▶                     knows stream 1 up to 5, so to wait for 7 is
//                                                       no wait that the program does not have
//
// Vector clocks, whose components are numbers of events (clocks.hpp). What is known here decides
// nothing: who gets a page of another stream waits in any case. It tells which of these waits the
// program implies and which are added to it. That count is not exact. Events by calls of CUDA's own
// are not heard, and what they imply counts as added. Of the work that a stream is given, requests
// and waits are heard: where it goes on with blocks that it has, after its last event, a wait for
// that counts as the program's. What a stream was made to wait for is the program's from then on.

#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "pages/device.hpp"

namespace pgmo::pages {

class ProgramOrder {
 public:
  // A stream is given work, before the event of that number.
  void given(Stream stream, std::uint64_t next) noexcept {
    given_[stream] = next;
    since_[stream] = 0;
  }

  // The program records an event of that number, waits for one, or has waited on the host for all
  // that streams were given before that number. Streams may be any numbers here.
  void recorded(std::uint32_t stream, std::uint64_t event, std::uint64_t number) noexcept;
  void waited(std::uint32_t stream, std::uint64_t event, std::uint64_t number) noexcept;
  void done(std::uint32_t stream, std::uint64_t number) noexcept;
  void event_done(std::uint64_t event) noexcept;
  void all_done(std::uint64_t number) noexcept;
  void forgotten(std::uint64_t event) noexcept { events_.erase(event); }

  // Nothing was heard for a while: an event may have been recorded anew, on any stream, and a
  // stream may have been given something.
  void lost() noexcept {
    events_.clear();
    since_.fill(0);
  }

  // The event of the program's that is as late as an event of ours with that number, if there is
  // one.
  std::uint64_t as_late(Stream stream, std::uint64_t number) const noexcept {
    return since_[stream] != 0 && since_[stream] < number ? since_[stream] : number;
  }

  // Whether a stream comes after that event of another one.
  bool implies(Stream stream, Stream other, std::uint64_t number) const noexcept;

  // It has been made to wait for it.
  void made_to_wait(Stream stream, Stream other, std::uint64_t number) noexcept;

 private:
  using Clock = std::array<std::uint64_t, kMostStreams>;

  Clock* clock_of(std::uint32_t stream) noexcept;
  static void add(Clock& clock, const Clock& other) noexcept;

  std::unordered_map<std::uint32_t, Clock> clocks_;
  std::unordered_map<std::uint64_t, Clock> events_;
  Clock host_{};   // of what everybody comes after
  Clock given_{};  // numbers of the first events that are not earlier
  Clock since_{};  // of the program's first event since then; 0: there is none
};

}  // namespace pgmo::pages
