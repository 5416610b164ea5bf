// Interface to the driver functions that pages of graphs need. GraphDevice (serving.hpp) implements
// it; tests have a simulation.

#pragma once

#include <cstddef>
#include <cstdint>

namespace pgmo::graphs {

using Address = std::uintptr_t;
using Handle = std::uint64_t;  // handle of a page
using Event = std::uint64_t;   // 0: none
using Stream = std::uint64_t;  // handle of a stream

// No function throws. Functions that return bool return false if the driver refuses. Sizes are in
// bytes; pages have the size that `Mappings` was constructed with.
class Driver {
 public:
  virtual ~Driver() = default;

  // Reserve a range of addresses, for the life of the process, that begins at a multiple of the
  // page size. Return 0 if the driver refuses.
  virtual Address reserve(std::size_t bytes) noexcept = 0;

  virtual bool create(Handle& page) noexcept = 0;
  virtual void release(Handle page) noexcept = 0;
  virtual bool map(Address address, Handle page) noexcept = 0;

  // Make consecutive mapped pages accessible to the device and its peers.
  virtual bool grant(Address address, std::size_t bytes) noexcept = 0;

  // Unmap consecutive whole pages. Requires that all work on these addresses is completed.
  virtual void unmap(Address address, std::size_t bytes) noexcept = 0;

  // Copy on the device synchronously. Requires that other work on both ranges is completed.
  virtual bool copy(Address to, Address from, std::size_t bytes) noexcept = 0;

  // Wait for all work that was submitted to the device. During a capture this is impossible: return
  // false if `whole`; otherwise wait for all known streams that are not being captured.
  virtual bool settle(bool whole) noexcept = 0;

  // Record an event after the work of a stream. Return 0 on failure. `discard` recycles the event.
  virtual Event record(Stream stream) noexcept = 0;
  virtual bool completed(Event event) noexcept = 0;
  virtual void discard(Event event) noexcept = 0;

  // Delay later work of the stream until the event; the host does not wait.
  virtual bool wait(Stream stream, Event event) noexcept = 0;
};

}  // namespace pgmo::graphs
