// A device that refuses all calls in a forked child, because the driver belongs to the parent.

#pragma once

#include <atomic>

#include "pages/device.hpp"

namespace pgmo::pages {

class OwnDevice final : public DeviceDriver {
 public:
  explicit OwnDevice(DeviceDriver& device) noexcept : device_(device) {}

  // Refuse all calls from now on. Called in a forked child.
  void lose() noexcept { lost_.store(true, std::memory_order_relaxed); }
  bool lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

  Address reserve(Bytes bytes) noexcept override { return lost() ? 0 : device_.reserve(bytes); }
  bool create(Handle& page) noexcept override { return !lost() && device_.create(page); }
  void release(Handle page) noexcept override {
    if (!lost()) device_.release(page);
  }
  bool map(Address address, Handle page) noexcept override {
    return !lost() && device_.map(address, page);
  }
  bool grant(Address address, Bytes bytes) noexcept override {
    return !lost() && device_.grant(address, bytes);
  }
  void unmap(Address address, Bytes bytes) noexcept override {
    if (!lost()) device_.unmap(address, bytes);
  }
  Event record(Stream stream) noexcept override { return lost() ? 0 : device_.record(stream); }
  bool completed(Event event) noexcept override { return !lost() && device_.completed(event); }
  void discard(Event event) noexcept override {
    if (!lost()) device_.discard(event);
  }
  bool wait(Stream stream, Event event) noexcept override {
    return !lost() && device_.wait(stream, event);
  }
  void took(Bytes bytes) noexcept override {
    if (!lost()) device_.took(bytes);
  }
  bool capturing() noexcept override { return lost() || device_.capturing(); }

 private:
  DeviceDriver& device_;
  std::atomic<bool> lost_{false};
};

}  // namespace pgmo::pages
