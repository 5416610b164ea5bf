// The driver functions that graphs' pages need. Tests replace them.

#pragma once

#include <cstddef>
#include <cstdint>

namespace pgmo::graphs {

using Address = std::uintptr_t;
using Handle = std::uint64_t;  // handle of a page
using Event = std::uint64_t;   // 0: none
using Stream = std::uint64_t;  // handle of a stream

// No call throws. Those that return bool return false if the driver refuses.
class Driver {
 public:
  virtual ~Driver() = default;

  // Reserve addresses from a multiple of the page size on, forever. Return 0 if refused.
  virtual Address reserve(std::size_t bytes) noexcept = 0;

  virtual bool create(Handle& page) noexcept = 0;
  virtual void release(Handle page) noexcept = 0;
  virtual bool map(Address address, Handle page) noexcept = 0;

  // Make consecutive mapped pages accessible.
  virtual bool grant(Address address, std::size_t bytes) noexcept = 0;

  // Unmap consecutive whole pages. Work that may use these addresses must be completed.
  virtual void unmap(Address address, std::size_t bytes) noexcept = 0;

  // Copy on the device, and wait for the copy. Other work must be completed.
  virtual bool copy(Address to, Address from, std::size_t bytes) noexcept = 0;

  // Wait for all work that was submitted to the device. During a capture that is impossible: wait
  // for the streams that are known, or, if `whole`, return false.
  virtual bool settle(bool whole) noexcept = 0;

  // Record an event behind the work of a stream. Return 0 if that is impossible.
  virtual Event record(Stream stream) noexcept = 0;
  virtual bool completed(Event event) noexcept = 0;
  virtual void discard(Event event) noexcept = 0;

  // Delay later work of the stream until the event; the host does not wait.
  virtual bool wait(Stream stream, Event event) noexcept = 0;
};

}  // namespace pgmo::graphs
