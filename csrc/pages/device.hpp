// What the pages need of a device: the driver's virtual memory management and its events.
//
//     reserve   addresses    ░░░░░░░░░░░░░░░░░░░░░░
//     create    a page       #
//     map       ░░░#░░░      ──▶ grant: may be read and written there
//     unmap     ░░░░░░░      the page is what it was, and may be mapped elsewhere, or at two
//     addresses record    an event behind what a stream has been given so far;  wait: another
//     stream, behind it
//
// All of these may take long and none is called under a lock that a request waits for that needs
// none of them; see pool.hpp. None may throw.

#pragma once

#include <cstddef>
#include <cstdint>

#include "types.hpp"

namespace pgmo::pages {

using Address = std::uintptr_t;
using Handle = std::uint64_t;  // of a page
using Event = std::uint64_t;   // 0: none
using Sleep = std::uint32_t;   // of what goes to sleep at once; 0: none
using Stream = std::uint32_t;  // a number below kMostStreams, see cuda/streams.hpp

constexpr Stream kMostStreams = 64;
static_assert(kMostStreams <= 64, "sets of streams are words with one bit each");

struct Extent {
  Address address;
  Bytes bytes;
};

// What the device and the framework above it prescribe.
struct DeviceProperties {
  // The smallest unit that the driver maps. Larger ones cost one to five percent of memory.
  Bytes page = Bytes{2} << 20;

  // Alignment of a block's address: what every framework promises its users.
  Bytes granularity = 512;

  // Addresses that a window reserves at a time, more than any card has.
  Bytes span = Bytes{256} << 30;

  // Maximum number of pages; 139 GiB are 71,168 of 2 MiB.
  std::size_t most_pages = std::size_t{1} << 17;

  // Whether a page may be mapped at a second address while it is still mapped at a first one.
  bool aliases = true;
};

class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;

  // Addresses that begin at a multiple of a page's size; 0: refused. They are never given back.
  virtual Address reserve(Bytes bytes) noexcept = 0;

  // A page; false when the card is full.
  virtual bool create(Handle& page) noexcept = 0;

  // Of a page that is mapped nowhere.
  virtual void release(Handle page) noexcept = 0;

  // False, and nothing has changed: the driver refuses.
  virtual bool map(Address address, Handle page) noexcept = 0;

  // Makes neighbouring pages that have been mapped accessible, in one call, which costs more than
  // the mapping itself.
  virtual bool grant(Address address, Bytes bytes) noexcept = 0;

  // Neighbouring pages, whole ones. Not ordered by streams: work that may still use these addresses
  // has to be completed.
  virtual void unmap(Address address, Bytes bytes) noexcept = 0;

  // 0 when that is not possible, as on a stream that is being captured.
  virtual Event record(Stream stream) noexcept = 0;
  virtual bool completed(Event event) noexcept = 0;
  virtual void discard(Event event) noexcept = 0;

  // Lets what the stream is given from now on begin after the event; the host goes on. False: that
  // is not so.
  virtual bool wait(Stream stream, Event event) noexcept = 0;

  // Pages of so many bytes more, or fewer, serve requests; those of a request that failed do not
  // count. Called under locks, so it takes none.
  virtual void took(Bytes) noexcept {}

  // Whether this thread may call none of the above, because a capture would end or record it.
  virtual bool capturing() noexcept = 0;
};

}  // namespace pgmo::pages
