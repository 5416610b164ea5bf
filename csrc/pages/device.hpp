// The device functions that the pages need: the driver's virtual memory management, and events.
//
//     reserve   addresses    ░░░░░░░░░░░░░░░░░░░░░░
//     create    a page       #
//     map       ░░░#░░░      ──▶ grant: the page can be read and written there
//     unmap     ░░░░░░░      the page keeps its content; it may be mapped elsewhere, or twice
//     record    an event after the work submitted so far;  wait: make a stream wait for it
//
// Each function except `took` may take long. So only `took` is called under `state`, the lock that
// requests without device calls take; see pool.hpp. No function may throw.

#pragma once

#include <cstddef>
#include <cstdint>

#include "types.hpp"

namespace pgmo::pages {

using Address = std::uintptr_t;
using Handle = std::uint64_t;      // handle of a page
using Event = std::uint64_t;       // 0: none
using Sleep = std::uint32_t;       // number that `Space::prepare_sleep` returns; 0: none
using Stream = std::uint32_t;      // a number below kMostStreams, see cuda/streams.hpp
using PoolNumber = std::uint64_t;  // number of a torch.cuda.MemPool; 0: none

constexpr Stream kMostStreams = 64;
static_assert(kMostStreams <= 64, "sets of streams are words with one bit each");

struct Extent {
  Address address;
  Bytes bytes;

  Address end() const noexcept { return address + static_cast<Address>(bytes); }
};

// Properties of the device, and requirements of the framework.
struct DeviceProperties {
  // Bytes of a page: the smallest unit that the driver maps. Larger pages waste 1 to 5 % of memory.
  Bytes page = Bytes{2} << 20;

  // Alignment of block addresses in bytes, as in the allocators of PyTorch and CuPy.
  Bytes granularity = 512;

  // Bytes of addresses that a window reserves at a time: more than the memory of any card.
  Bytes span = Bytes{256} << 30;

  // Maximum number of pages; above it, none is created. 139 GiB are 71,168 pages of 2 MiB.
  std::size_t most_pages = std::size_t{1} << 17;

  // True if a page may be mapped at several addresses at the same time.
  bool aliases = true;
};

class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;

  // Reserve addresses, aligned to the page size, for the life of the process. Return 0 on failure.
  virtual Address reserve(Bytes bytes) noexcept = 0;

  // Create a page. Return false if the card is full.
  virtual bool create(Handle& page) noexcept = 0;

  // Release a page that is not mapped.
  virtual void release(Handle page) noexcept = 0;

  // Map a page. Return false, and change nothing, if the driver refuses.
  virtual bool map(Address address, Handle page) noexcept = 0;

  // Make consecutive mapped pages accessible. Costs more than `map`. Return false on failure.
  virtual bool grant(Address address, Bytes bytes) noexcept = 0;

  // Unmap consecutive whole pages at once. All work that may use these addresses must be completed.
  virtual void unmap(Address address, Bytes bytes) noexcept = 0;

  // Record an event. Return 0 if that is impossible, for example on a stream in capture.
  virtual Event record(Stream stream) noexcept = 0;
  virtual bool completed(Event event) noexcept = 0;
  virtual void discard(Event event) noexcept = 0;

  // Delay later work of the stream until the event, but not the host. Return false on failure.
  virtual bool wait(Stream stream, Event event) noexcept = 0;

  // Report that pages have taken bytes from the card (negative: returned). Pages that only a failed
  // request created do not count. The caller holds locks, so this function must take none.
  virtual void took(Bytes) noexcept {}

  // Return whether a capture may be in progress: other calls would break it, or be captured.
  virtual bool capturing() noexcept = 0;
};

}  // namespace pgmo::pages
