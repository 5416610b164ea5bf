// A device whose streams run their work later. Work reads and writes when it runs, through the
// mappings of that moment. It is a violation to unmap pages under pending work, or to read an
// unexpected value.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <set>

#include "adapters/cuda/graphs/driver.hpp"
#include "oracle.hpp"
#include "random.hpp"

namespace pgmo::test {

class LaggingMemory final : public graphs::Driver {
 public:
  using Address = graphs::Address;
  using Event = graphs::Event;
  using Handle = graphs::Handle;
  using Stream = graphs::Stream;

  static constexpr std::size_t kWord = 8;
  static constexpr std::size_t kWords = 4;
  static constexpr std::size_t kPage = kWord * kWords;
  static constexpr std::size_t kStreams = 4;

  LaggingMemory(Random& random, std::size_t most) : random_(random), most_(most) {}

  // --- the driver -------------------------------------------------------------------------------

  Address reserve(std::size_t bytes) noexcept override {
    const Address base = next_;
    next_ += bytes + kPage;
    return base;
  }
  bool create(Handle& page) noexcept override {
    if (pages_.size() >= most_) return false;
    page = ++newest_;
    for (std::uint64_t& word : pages_[page]) word = garbage();
    return true;
  }
  void release(Handle page) noexcept override {
    for (const auto& [at, handle] : mapped_) require(handle != page, "a mapped page is released");
    require(pages_.erase(page) == 1, "an unknown page is released");
  }
  bool map(Address address, Handle page) noexcept override {
    require(pages_.contains(page), "an unknown page is mapped");
    require(mapped_.emplace(address, page).second, "a page is mapped over another one");
    granted_.erase(address);
    return true;
  }
  bool grant(Address address, std::size_t bytes) noexcept override {
    for (Address at = address; at < address + bytes; at += kPage) {
      require(mapped_.contains(at), "access to addresses without a page is granted");
      granted_.insert(at);
      ++grants_;
    }
    return true;
  }
  void unmap(Address address, std::size_t bytes) noexcept override {
    for (const auto& stream : streams_) {
      for (const Work& work : stream) {
        const bool inside = work.at >= address && work.at < address + bytes;
        require(!inside, "pages are unmapped under pending work");
      }
    }
    for (Address at = address; at < address + bytes; at += kPage) {
      require(mapped_.erase(at) == 1, "addresses without a page are unmapped");
      granted_.erase(at);
    }
  }
  bool copy(Address to, Address from, std::size_t bytes) noexcept override {
    for (Address at = 0; at < bytes; at += kWord) word(to + at) = word(from + at);
    return true;
  }
  bool settle(bool whole) noexcept override {
    if (whole && random_.chance(0.3)) return false;  // another thread is capturing
    run_all();
    return true;
  }
  Event record(Stream stream) noexcept override {
    if (random_.chance(0.01)) return 0;
    streams_.at(stream).push_back({Kind::kRecord, 0, ++events_});
    pending_.insert(events_);
    return events_;
  }
  bool completed(Event event) noexcept override {
    require(!discarded_.contains(event), "an event is queried after its end");
    return !pending_.contains(event);
  }
  void discard(Event event) noexcept override {
    require(discarded_.insert(event).second, "an event is discarded twice");
  }
  bool wait(Stream stream, Event event) noexcept override {
    require(!discarded_.contains(event), "an event is waited for after its end");
    if (random_.chance(0.01)) return false;
    streams_.at(stream).push_back({Kind::kWait, 0, event});
    return true;
  }

  // --- the program ------------------------------------------------------------------------------

  void write(Stream stream, Address at, std::uint64_t value) {
    streams_.at(stream).push_back({Kind::kWrite, at, value});
  }
  // Submit work that requires a value when it runs.
  void expect(Stream stream, Address at, std::uint64_t value) {
    streams_.at(stream).push_back({Kind::kRead, at, value});
  }
  // Delay the later work of one stream until the work submitted to the other stream is done.
  void order(Stream later, Stream earlier) {
    streams_.at(earlier).push_back({Kind::kRecord, 0, ++events_});
    pending_.insert(events_);
    streams_.at(later).push_back({Kind::kWait, 0, events_});
  }

  // Addresses to which access was granted.
  std::size_t grants() const { return grants_; }

  void run_some() {
    const auto stream = static_cast<Stream>(random_.between(0, kStreams - 1));
    for (auto left = random_.between(1, 40); left > 0 && run_one(stream); --left) continue;
  }
  void run_all() {
    for (bool any = true; any;) {
      any = false;
      for (Stream stream = 0; stream < kStreams; ++stream) {
        while (run_one(stream)) any = true;
      }
    }
    for (const auto& stream : streams_) require(stream.empty(), "streams wait for each other");
  }

 private:
  enum class Kind { kWrite, kRead, kRecord, kWait };
  struct Work {
    Kind kind;
    Address at;
    std::uint64_t value;
  };

  std::uint64_t garbage() { return ~std::uint64_t{0} - static_cast<std::uint64_t>(newest_); }

  std::uint64_t& word(Address at) {
    const Address page = at / kPage * kPage;
    require(granted_.contains(page), "memory without a page is used");
    return pages_.at(mapped_.at(page)).at((at - page) / kWord);
  }

  bool run_one(Stream number) {
    auto& stream = streams_.at(number);
    if (stream.empty()) return false;
    const Work work = stream.front();
    if (work.kind == Kind::kWait && pending_.contains(work.value)) return false;
    stream.pop_front();
    if (work.kind == Kind::kWrite) word(work.at) = work.value;
    if (work.kind == Kind::kRead) {
      require(word(work.at) == work.value, "a value of a graph was overwritten");
    }
    if (work.kind == Kind::kRecord) pending_.erase(work.value);
    return true;
  }

  Random& random_;
  const std::size_t most_;
  Address next_ = kPage;
  Handle newest_ = 0;
  Event events_ = 0;
  std::size_t grants_ = 0;
  std::map<Handle, std::array<std::uint64_t, kWords>> pages_;
  std::map<Address, Handle> mapped_;
  std::set<Address> granted_;
  std::set<Event> pending_;
  std::set<Event> discarded_;
  std::array<std::deque<Work>, kStreams> streams_;
};

}  // namespace pgmo::test
