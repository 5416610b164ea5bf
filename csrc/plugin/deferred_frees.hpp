// Frees that wait for other streams: blocks on which `record_stream` was called.
//
//     used(block, s)        free(block)                     poll                  poll
//     ───────────────▶ an event is recorded on s ──▶ pending: stays  ──▶ done: handed out, freed
//
// Slots and the driver's blocks wait in the same way. The driver's could instead be freed at once,
// behind a cuStreamWaitEvent on their own stream; but all later work of that stream would wait with
// them, and communication that overlaps with computation is what such streams are for.

#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "plugin/device_memory.hpp"

namespace pgmo::plugin {

struct Block {
  void* pointer;
  std::size_t bytes;
  Stream stream;  // on which it was requested
};

// Living blocks that other streams use. One for all devices: torch names no device.
class StreamUses {
 public:
  void add(void* pointer, Stream stream);

  // Forgets the block; returns the streams that use it besides its own.
  std::vector<Stream> take(void* pointer, Stream own) noexcept;

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::vector<Stream>> uses_;
  std::atomic<std::size_t> count_{0};
};

class DeferredFrees {
 public:
  struct Waiting {
    Block block;
    bool is_slot;
    std::vector<Stream> unmarked;  // no event was recorded there yet: the stream is in capture
    int pending = 0;               // events
  };

  explicit DeferredFrees(DeviceMemory& memory) : memory_(memory) {}

  // False: the streams have been waited for instead, so free it now.
  bool add(const Block& block, bool is_slot, std::vector<Stream> streams) noexcept;

  // Those whose streams are done; the caller frees them.
  std::list<Waiting> poll() noexcept;

  std::size_t count() const noexcept { return count_.load(std::memory_order_acquire); }

 private:
  struct Mark {
    Event event;
    Waiting* waiting;
  };

  void mark(Waiting& waiting) noexcept;
  bool record(Waiting& waiting, Stream stream) noexcept;
  Event take_event() noexcept;
  void keep_event(Event event) noexcept;

  DeviceMemory& memory_;
  std::mutex mutex_;
  std::list<Waiting> waiting_;
  std::map<Stream, std::deque<Mark>> marks_;  // a stream's events complete in order
  std::vector<Event> spare_events_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace pgmo::plugin
