// A device with real memory and streams that do their work later.
//
//     card       a memory file, one page of it per handle; mapped shared, so that an alias is one
//     streams    fill ─ check ─ record ─ wait ─ ...      run by `step`, in any order that events
//     allow
//
// Work reads and writes through addresses when it runs, not when it is given, as on a real device:
// a page that changes hands too early is found by what a check reads, an address that is unmapped
// too early by the work that is still to come. Other misuse of the driver ends the program at once.

#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "oracle.hpp"
#include "pages/device.hpp"

namespace pgmo::test {

class FakeDevice final : public pages::Device {
 public:
  using Address = pages::Address;
  using Event = pages::Event;
  using Extent = pages::Extent;
  using Handle = pages::Handle;
  using Stream = pages::Stream;

  explicit FakeDevice(std::size_t card_pages)
      : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), file_(memfd_create("card", 0)) {
    require(file_ >= 0 && ftruncate(file_, static_cast<off_t>(card_pages * page_)) == 0,
            "the test has no memory file");
    for (std::size_t at = card_pages; at > 0; --at) unused_.push_back(at);
  }
  ~FakeDevice() override {
    for (const auto& [base, bytes] : reserved_) munmap(pointer(base), bytes);
    close(file_);
  }
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  Bytes page() const { return static_cast<Bytes>(page_); }

  // --- the driver --------------------------------------------------------------------------------

  Address reserve(Bytes bytes) noexcept override {
    const std::lock_guard guard(called());
    if (refuse_reserve) return 0;
    const auto size = static_cast<std::size_t>(bytes);
    void* base = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return 0;
    reserved_[reinterpret_cast<Address>(base)] = size;
    return reinterpret_cast<Address>(base);
  }

  bool create(Handle& page) noexcept override {
    const std::lock_guard guard(called());
    if (unused_.empty() || refuse_create || fails()) return false;
    page = unused_.back();
    unused_.pop_back();
    mappings_[page] = 0;
    return true;
  }

  void release(Handle page) noexcept override {
    const std::lock_guard guard(called());
    require(mappings_.contains(page), "a page is released that is not there");
    require(mappings_[page] == 0, "a page is released that is still mapped");
    mappings_.erase(page);
    unused_.push_back(page);
  }

  bool map(Address address, Handle page) noexcept override {
    const std::lock_guard guard(called());
    require(mappings_.contains(page), "a page is mapped that is not there");
    require(is_reserved(address), "a page is mapped where nothing is reserved");
    require(!places_.contains(address), "a page is mapped where another one is");
    if (refuse_map || fails()) return false;
    const auto offset = static_cast<off_t>((page - 1) * page_);
    require(mmap(pointer(address), page_, PROT_NONE, MAP_SHARED | MAP_FIXED, file_, offset) ==
                pointer(address),
            "the test cannot map");
    places_[address] = {page, false};
    ++mappings_[page];
    most_mappings = std::max(most_mappings, mappings_[page]);
    return true;
  }

  bool grant(Address address, Bytes bytes) noexcept override {
    const std::lock_guard guard(called());
    if (refuse_map || fails()) return false;
    const Address end = address + static_cast<Address>(bytes);
    for (Address at = address; at < end; at += page_) {
      require(places_.contains(at), "access is granted to what is not mapped");
      places_[at].granted = true;
    }
    return mprotect(pointer(address), static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE) == 0;
  }

  void unmap(Address address, Bytes bytes) noexcept override {
    const std::lock_guard guard(called());
    const Address end = address + static_cast<Address>(bytes);
    for (const auto& stream : streams_) {
      for (const Work& work : stream) {
        require(work.where.address >= end || end_of(work.where) <= address,
                "addresses are unmapped that work is still to use");
      }
    }
    for (Address at = address; at < end; at += page_) {
      require(places_.contains(at), "a page is unmapped that is not mapped");
      --mappings_[places_[at].page];
      places_.erase(at);
    }
    const auto size = static_cast<std::size_t>(bytes);
    require(
        mmap(pointer(address), size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == pointer(address),
        "the test cannot unmap");
  }

  Event record(Stream stream) noexcept override {
    const std::lock_guard guard(called());
    if (captured_streams >> stream & 1) return 0;
    if (fails()) return 0;
    const Event event = next_event_++;
    pending_.insert(event);
    known_.insert(event);
    streams_[stream].push_back({Work::kRecord, {0, 0}, event});
    return event;
  }

  bool completed(Event event) noexcept override {
    const std::lock_guard guard(called());
    require(known_.contains(event), "an event is asked about that was discarded");
    return !pending_.contains(event);
  }

  void discard(Event event) noexcept override {
    const std::lock_guard guard(called());
    require(known_.erase(event) == 1, "an event is discarded twice");
  }

  bool wait(Stream stream, Event event) noexcept override {
    const std::lock_guard guard(called());
    require(known_.contains(event), "an event is waited for that was discarded");
    if (fails()) return false;
    streams_[stream].push_back({Work::kWait, {0, 0}, event});
    return true;
  }

  bool capturing() noexcept override { return is_capturing; }

  // --- the program's own work --------------------------------------------------------------------

  void fill(Stream stream, Extent where, std::uint64_t pattern) {
    const std::lock_guard guard(mutex_);
    streams_[stream].push_back({Work::kFill, where, pattern});
  }
  void check(Stream stream, Extent where, std::uint64_t pattern) {
    const std::lock_guard guard(mutex_);
    streams_[stream].push_back({Work::kCheck, where, pattern});
  }

  // The second stream goes on behind what the first one has been given, as a program orders them.
  void order(Stream first, Stream second) {
    const std::lock_guard guard(mutex_);
    const Event event = next_event_++;
    pending_.insert(event);
    streams_[first].push_back({Work::kRecord, {0, 0}, event});
    streams_[second].push_back({Work::kWait, {0, 0}, event});
  }

  // One piece of work of a stream. False: none, or it has to wait.
  bool step(Stream stream) {
    const std::lock_guard guard(mutex_);
    std::deque<Work>& line = streams_[stream];
    if (line.empty()) return false;
    const Work work = line.front();
    if (work.kind == Work::kWait && pending_.contains(work.value)) return false;
    line.pop_front();
    if (work.kind == Work::kRecord) pending_.erase(work.value);
    if (work.kind == Work::kFill || work.kind == Work::kCheck) touch(work);
    return true;
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

  // The page behind an address; 0: none that may be accessed.
  Handle page_at(Address address) {
    const std::lock_guard guard(mutex_);
    const auto place = places_.find(address / page_ * page_);
    return place == places_.end() || !place->second.granted ? 0 : place->second.page;
  }
  std::size_t pages_created() {
    const std::lock_guard guard(mutex_);
    return mappings_.size();
  }

  // Faults to be injected.
  bool refuse_reserve = false;
  bool refuse_create = false;
  bool refuse_map = false;
  std::uint64_t fail_one_in = 0;  // of the calls that may fail
  bool is_capturing = false;
  std::uint64_t captured_streams = 0;
  int most_mappings = 0;  // of a page, ever

 private:
  struct Work {
    enum Kind { kFill, kCheck, kRecord, kWait };
    Kind kind;
    Extent where;
    std::uint64_t value;  // a pattern or an event
  };
  struct Place {
    Handle page;
    bool granted;
  };

  static constexpr std::size_t kStride = 256;

  static void* pointer(Address address) { return reinterpret_cast<void*>(address); }
  static Address end_of(const Extent& where) {
    return where.address + static_cast<Address>(where.bytes);
  }

  std::recursive_mutex& called() {
    require(!is_capturing, "the device is called during a capture");
    return mutex_;
  }

  bool fails() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return fail_one_in != 0 && state_ % fail_one_in == 0;
  }

  bool is_reserved(Address address) const {
    auto range = reserved_.upper_bound(address);
    if (range == reserved_.begin()) return false;
    --range;
    return address - range->first + page_ <= range->second;
  }

  // The first and the last word, and one in between here and there.
  void touch(const Work& work) {
    const Address last = end_of(work.where) - sizeof(std::uint64_t);
    for (Address at = work.where.address;; at = std::min(at + kStride, last)) {
      const auto place = places_.find(at / page_ * page_);
      require(place != places_.end() && place->second.granted, "work uses what is not mapped");
      const std::uint64_t expected = work.value ^ (at - work.where.address);
      if (work.kind == Work::kFill) {
        std::memcpy(pointer(at), &expected, sizeof expected);
      } else {
        std::uint64_t found = 0;
        std::memcpy(&found, pointer(at), sizeof found);
        require(found == expected, "a block does not hold what was written to it");
      }
      if (at == last) break;
    }
  }

  const std::size_t page_;
  const int file_;
  std::recursive_mutex mutex_;
  std::map<Address, std::size_t> reserved_;
  std::vector<Handle> unused_;
  std::map<Handle, int> mappings_;
  std::map<Address, Place> places_;
  std::array<std::deque<Work>, pages::kMostStreams> streams_;
  std::set<Event> pending_;
  std::set<Event> known_;  // those of the pages
  Event next_event_ = 1;
  std::uint64_t state_ = 88172645463325252u;
};

}  // namespace pgmo::test
