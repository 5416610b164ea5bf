// Two fake devices: one of a thousand pages, one without memory. Also an owner of planned ranges
// with given live slots.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fake_device.hpp"
#include "pages/space.hpp"

namespace pgmo::test {

inline pages::DeviceProperties properties_of(const FakeDevice& device) {
  return {.page = device.page(), .span = device.page() * 4000};
}

inline Heuristics heuristics_for(const FakeDevice& device) {
  return {.small_block = device.page() / 2};
}

struct PagesFixture {
  explicit PagesFixture(std::size_t card = 1000) : device(card) {}
  Bytes pages(Bytes count) const { return count * device.page(); }

  FakeDevice device;
  pages::DeviceProperties properties = properties_of(device);
  Heuristics heuristics = heuristics_for(device);
};

// Owner of a planned range that lists the live slots of the test.
struct Owner final : pages::RangeOwner {
  void list_living(pages::PlannedRange& range, std::vector<pages::Extent>& all) override {
    all = living;
    range.count_from_now_on();
  }
  std::vector<pages::Extent> living;
};

// A device that returns new numbers as handles, and has no memory.
struct PretendedDevice final : pages::DeviceDriver {
  using Address = pages::Address;

  Address reserve(Bytes bytes) noexcept override {
    next += Address{1} << 40;
    return bytes < (Bytes{1} << 40) ? next : 0;
  }
  bool create(pages::Handle& page) noexcept override {
    page = ++created;
    return true;
  }
  void release(pages::Handle) noexcept override { ++released; }
  bool map(Address, pages::Handle) noexcept override { return true; }
  bool grant(Address, Bytes) noexcept override { return true; }
  void unmap(Address, Bytes) noexcept override {}
  pages::Event record(pages::Stream) noexcept override { return ++event; }
  bool completed(pages::Event) noexcept override { return true; }
  void discard(pages::Event) noexcept override {}
  bool wait(pages::Stream, pages::Event) noexcept override { return true; }
  bool capturing() noexcept override { return false; }

  Address next = Address{1} << 40;
  std::uint64_t created = 0;
  std::uint64_t released = 0;
  pages::Event event = 0;
};

}  // namespace pgmo::test
