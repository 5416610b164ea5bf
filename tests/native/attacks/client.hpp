// A program's calls through an adapter. Every call goes to the engine and to the oracle. The
// engine's statistics and recordings must agree with the client's account of the calls.

#pragma once

#include <cstdint>

#include "session.hpp"

namespace pgmo::test {

struct Block {
  std::uintptr_t address;
  std::uint64_t bytes;
  std::uint32_t stream;
  bool ours;  // whether it lies in an arena
  bool adopted;
  std::uint32_t record;  // its number in the recording `epoch`
  std::uint32_t epoch;

  bool known() const { return ours || adopted; }  // whether the engine knows the block
};

class Client : public Session {
 public:
  using Session::Session;

  std::uint64_t events() const { return events_; }
  std::uint64_t yields() const { return yields_; }

  Block request(std::uint64_t bytes, std::uint32_t stream) {
    ++events_;
    ++whereabouts.event;
    const std::uint64_t handle = kStreams[stream];
    Block block = unborn(bytes, stream);
    bool failed = false;
    {
      const FailingAllocation failing(failure());
      block.address = reinterpret_cast<std::uintptr_t>(api_->allocate(handle_, bytes, handle));
      failed = failing.happened();
    }
    const bool served = block.address != 0;
    if (serving_ && !paused_) count_request(bytes, served, failed);
    if (served) {
      require(serving_ && !paused_, "a slot is served while the engine does not serve");
      settle(block);
      account_.hit(bytes);
    } else {
      block.address = ground_.memory().take(bytes);
      ground_.oracle().lives(block.address, bytes);
      failed |= adopt(block);
    }
    if (record_.active() && !paused_) {
      if (failed) record_.memory_ran_out();
      block.record = record_.request(bytes, handle);
    }
    return block;
  }

  void release(const Block& block) {
    ++events_;
    ++whereabouts.event;
    ground_.oracle().dies(block.address);
    void* const pointer = reinterpret_cast<void*>(block.address);
    require((api_->owns(handle_, pointer) != 0) == block.ours,
            "the engine does not know which blocks lie in its arenas");
    // Count the free first, because the call may give an arena back.
    record_.free(block.record, block.epoch);
    // A block that was not adopted may be released through the engine, but need not be.
    if (block.known() || random_.chance(0.5)) {
      int kind = 0;
      {
        const FailingAllocation failing(failure());
        kind = api_->release(handle_, pointer);
        if (failing.happened()) record_.memory_ran_out();
      }
      require((kind == PGMO_SLOT) == block.ours, "a slot is taken for the framework's, or not");
    }
    if (block.ours) {
      account_.slots.remove(static_cast<Bytes>(block.bytes));
    } else {
      if (block.adopted) account_.fallback.remove(static_cast<Bytes>(block.bytes));
      ground_.memory().give(block.address, block.bytes);
    }
  }

  // Report to the engine that this stream uses the block.
  void share(const Block& block, std::uint32_t stream) {
    bool puts_off = false;
    {
      const FailingAllocation failing(failure());
      puts_off = api_->shared(handle_, reinterpret_cast<void*>(block.address), kStreams[stream]) !=
                 PGMO_FOREIGN;
      if (failing.happened()) record_.memory_ran_out();
    }
    if (block.stream != stream) record_.shared(block.record, block.epoch);
    require(block.ours || !puts_off, "a free is put off for the framework's own block");
    require(!block.ours || block.stream == stream || puts_off,
            "a slot that another stream uses may be freed at once");
  }

  // --- the account ---

  void compare_statistics() {
    account_.compare(engine_, ground_.oracle());
    require_equal(engine_.has_arena(), attached(), "whether there is an arena");
    const std::uint32_t recording = record_.active() ? PGMO_RECORDING : 0;
    const std::uint32_t serving = serving_ ? PGMO_SERVING : 0;
    require_equal(*api_->mode(handle_), paused_ ? 0 : recording | serving, "mode");
  }

  void compare_end() {
    compare_statistics();
    Account::compare_end(engine_, ground_.oracle());
  }

 private:
  Block unborn(std::uint64_t bytes, std::uint32_t stream) const {
    return {.address = 0,
            .bytes = bytes,
            .stream = stream,
            .ours = false,
            .adopted = false,
            .record = Recorder::kNoBlock,
            .epoch = record_.epoch()};
  }

  // Record the slot that the engine has served.
  void settle(Block& block) {
    block.ours = true;
    ground_.served_from_arena(block.address, block.bytes, block.stream);
    account_.slots.add(static_cast<Bytes>(block.bytes));
  }

  // Count a request. The engine counts none that failed for lack of memory.
  void count_request(std::uint64_t bytes, bool served, bool failed) {
    if (!served && failed) {
      return require_equal(engine_.statistics().counters.requests, account_.requests,
                           "requests without memory");
    }
    account_.requested(bytes);
  }

  // Report a framework block to the engine. Return whether memory ran out in the call.
  bool adopt(Block& block) {
    const FailingAllocation failing(failure());
    void* const pointer = reinterpret_cast<void*>(block.address);
    block.adopted = api_->adopt(handle_, pointer, block.bytes, kStreams[block.stream], 0) != 0;
    require(failing.happened() || block.adopted == ((serving_ || record_.active()) && !paused_),
            "a block of the framework's is not adopted, or in bypass");
    if (block.adopted) account_.fallback.add(static_cast<Bytes>(block.bytes));
    return failing.happened();
  }

  std::uint64_t events_ = 0;
};

}  // namespace pgmo::test
