// A device whose streams run their work later.
//
//     memory     pages, and addresses that are translated in software: fake_memory.hpp
//     streams    fill ─ check ─ record ─ wait ─ ...      run by `step`, as far as events allow
//
// Work reads and writes through addresses when it runs, not when it is submitted, as on a real
// device. So a check finds a page that was reused too early. Pending work finds an address that was
// unmapped too early. Other misuse of the driver ends the program at once.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <mutex>

#include "event_log.hpp"
#include "fake_memory.hpp"
#include "oracle.hpp"
#include "pages/device.hpp"

namespace pgmo::test {

class FakeDevice final : public pages::DeviceDriver {
 public:
  using Address = pages::Address;
  using Event = pages::Event;
  using Extent = pages::Extent;
  using Handle = pages::Handle;
  using Stream = pages::Stream;

  explicit FakeDevice(std::size_t card_pages) : memory_(card_pages) {}
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  static constexpr Bytes page() { return static_cast<Bytes>(FakeMemory::kPage); }

  // --- the driver --------------------------------------------------------------------------------

  Address reserve(Bytes bytes) noexcept override {
    const std::lock_guard guard(called());
    return refuse_reserve ? 0 : memory_.reserve(bytes);
  }

  bool create(Handle& page) noexcept override {
    const std::lock_guard guard(called());
    if (memory_.left() == 0 || refuse_create || fails()) return false;
    page = memory_.create();
    return true;
  }

  void release(Handle page) noexcept override {
    const std::lock_guard guard(called());
    memory_.release(page);
  }

  bool map(Address address, Handle page) noexcept override {
    const std::lock_guard guard(called());
    require(memory_.exists(page), "a page is mapped that is not there");
    memory_.require_vacant(address);
    if (refuse_map || fails()) return false;
    most_mappings = std::max(most_mappings, memory_.map(address, page));
    return true;
  }

  bool grant(Address address, Bytes bytes) noexcept override {
    const std::lock_guard guard(called());
    if (refuse_map || refuse_grant || fails()) return false;
    memory_.grant({address, bytes});
    ++grants;
    return true;
  }

  void unmap(Address address, Bytes bytes) noexcept override {
    const std::lock_guard guard(called());
    memory_.unmap({address, bytes});
  }

  Event record(Stream stream) noexcept override {
    const std::lock_guard guard(called());
    if (captured_streams >> stream & 1) return 0;
    if (fails()) return 0;
    const Event event = events_.record(true);
    streams_[stream].push_back({Work::kRecord, {0, 0}, event});
    return event;
  }

  bool completed(Event event) noexcept override {
    const std::lock_guard guard(called());
    require(events_.held(event), "an event is asked about that was discarded");
    return !events_.pending(event);
  }

  void discard(Event event) noexcept override {
    const std::lock_guard guard(called());
    require(events_.held(event), "an event is discarded twice");
    events_.discard(event);
  }

  bool wait(Stream stream, Event event) noexcept override {
    const std::lock_guard guard(called());
    require(events_.held(event), "an event is waited for that was discarded");
    if (fails()) return false;
    streams_[stream].push_back({Work::kWait, {0, 0}, event});
    return true;
  }

  bool capturing() noexcept override { return is_capturing; }

  // --- the program's own work --------------------------------------------------------------------

  // Submit work on whole words: write a pattern, or check it.
  void fill(Stream stream, Extent where, std::uint64_t pattern) {
    give(stream, {Work::kFill, where, pattern});
  }
  void check(Stream stream, Extent where, std::uint64_t pattern) {
    give(stream, {Work::kCheck, where, pattern});
  }

  // Order the later work of the second stream after the work submitted to the first stream, as a
  // program does.
  void order(Stream first, Stream second) {
    const std::lock_guard guard(mutex_);
    const Event event = events_.record(false);
    streams_[first].push_back({Work::kRecord, {0, 0}, event});
    streams_[second].push_back({Work::kWait, {0, 0}, event});
  }

  // Run one piece of work of a stream. Return false if there is none, or if it must wait.
  bool step(Stream stream) {
    const std::lock_guard guard(mutex_);
    return proceed(stream);
  }

  // Run this many steps, each on the stream that `choose` returns.
  static constexpr Stream kNoStream = pages::kMostStreams;
  template <typename Choose>
  void run(std::int64_t steps, Choose&& choose) {
    const std::lock_guard guard(mutex_);
    for (; steps > 0; --steps) {
      const Stream stream = choose();
      if (stream != kNoStream) proceed(stream);
    }
  }

  void synchronize() {
    for (bool any = true; any;) {
      any = false;
      for (Stream stream = 0; stream < pages::kMostStreams; ++stream) {
        while (step(stream)) any = true;
      }
    }
  }

  std::size_t queued(Stream stream) {
    const std::lock_guard guard(mutex_);
    return streams_[stream].size();
  }

  // --- for oracles -------------------------------------------------------------------------------

  // Return the page that is accessible at an address, or 0.
  Handle page_at(Address address) {
    const std::lock_guard guard(mutex_);
    return memory_.page_behind(address);
  }

  // Call `visit` with each piece of a block and the page accessible there, or 0.
  template <typename Visit>
  void for_each_piece(Extent where, Visit&& visit) {
    const std::lock_guard guard(mutex_);
    memory_.for_each_piece(where, [&](const FakeMemory::Piece& piece) {
      visit(piece, memory_.page_at(piece.number));
    });
  }

  std::size_t pages_created() {
    const std::lock_guard guard(mutex_);
    return memory_.created();
  }

  // Faults to inject, and a statistic.
  bool refuse_reserve = false;
  bool refuse_create = false;
  bool refuse_map = false;
  bool refuse_grant = false;
  std::size_t grants = 0;         // number of calls of `grant` that succeeded
  std::uint64_t fail_one_in = 0;  // one in this many fallible calls fails; 0: none
  bool is_capturing = false;
  std::uint64_t captured_streams = 0;
  int most_mappings = 0;  // most mappings of one page so far

 private:
  struct Work {
    enum Kind { kFill, kCheck, kRecord, kWait };
    Kind kind;
    Extent where;
    std::uint64_t value;  // a pattern or an event
  };

  static constexpr std::size_t kWord = sizeof(FakeMemory::Word);
  static constexpr std::size_t kStride = 256;

  std::mutex& called() {
    require(!is_capturing, "the device is called during a capture");
    return mutex_;
  }

  bool fails() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return fail_one_in != 0 && state_ % fail_one_in == 0;
  }

  bool proceed(Stream stream) {
    std::deque<Work>& line = streams_[stream];
    if (line.empty()) return false;
    const Work work = line.front();
    if (work.kind == Work::kWait && events_.pending(work.value)) return false;
    line.pop_front();
    if (work.kind == Work::kRecord) events_.complete(work.value);
    if (work.kind == Work::kFill) touch<Work::kFill>(work);
    if (work.kind == Work::kCheck) touch<Work::kCheck>(work);
    return true;
  }

  void give(Stream stream, const Work& work) {
    require((work.where.address | static_cast<Address>(work.where.bytes)) % kWord == 0,
            "the test uses parts of words");
    const std::lock_guard guard(mutex_);
    memory_.promise(work.where);
    streams_[stream].push_back(work);
  }

  // Write or check the first and the last word of a block, and one word per `kStride` bytes: at
  // least one word per page.
  template <typename Work::Kind kKind>
  void touch(const Work& work) {
    const auto word = [&](FakeMemory::Word& at, std::size_t offset) {
      const std::uint64_t expected = work.value ^ offset;
      if constexpr (kKind == Work::kFill) at = expected;
      if (at != expected) violation("a block does not hold what was written to it");
    };
    const auto bytes = static_cast<std::size_t>(work.where.bytes);
    std::size_t before = 0;  // bytes of the block in earlier pages
    std::size_t next = 0;    // offset of the next word in the block
    memory_.for_each_piece(work.where, [&](const FakeMemory::Piece& piece) {
      FakeMemory::Word* const page = memory_.accessible(piece.number);
      const std::size_t end = before + (piece.end - piece.begin);
      for (; next < end; next += kStride) word(page[(piece.begin + next - before) / kWord], next);
      if (end == bytes) word(page[piece.end / kWord - 1], bytes - kWord);
      before = end;
    });
    memory_.fulfil(work.where);
  }

  FakeMemory memory_;
  std::mutex mutex_;
  std::array<std::deque<Work>, pages::kMostStreams> streams_;
  EventLog events_;
  std::uint64_t state_ = 88172645463325252u;
};

}  // namespace pgmo::test
