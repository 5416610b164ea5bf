// What a program does through an adapter, and an account of it: every call goes to the engine and
// to the oracle, and the engine's statistics and records have to agree with the account.

#pragma once

#include <cstdint>
#include <optional>

#include "session.hpp"

namespace pgmo::test {

enum class Home : std::uint8_t { kFramework, kArena, kRegion };

struct Block {
  std::uintptr_t address;
  std::uint64_t bytes;
  std::uint32_t stream;
  Home home;
  bool adopted;
  std::uint32_t record;  // its number in recording `epoch`
  std::uint32_t epoch;
  std::uint32_t generation;  // of the plans at its birth

  bool ours() const { return home != Home::kFramework; }
  bool known() const { return ours() || adopted; }  // to the engine
};

class Client : public Session {
 public:
  using Session::Session;

  std::uint64_t events() const { return events_; }
  std::uint64_t yields() const { return yields_; }
  std::uint64_t opened() const { return opened_; }

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
    require((api_->owns(handle_, pointer) != 0) == block.ours(),
            "the engine does not know which blocks lie in its arenas");
    // Counted first: an arena or region may go back in the call.
    record_.free(block.record, block.epoch);
    // A block that was not adopted need not be released through the engine, but may be.
    if (block.known() || random_.chance(0.5)) {
      int kind = 0;
      {
        const FailingAllocation failing(failure());
        kind = api_->release(handle_, pointer);
        if (failing.happened()) record_.memory_ran_out();
      }
      require((kind == PGMO_SLOT) == block.ours(), "a slot is taken for the framework's, or not");
    }
    if (block.ours()) {
      level_of(block).remove(static_cast<Bytes>(block.bytes));
    } else {
      if (block.adopted) account_.fallback.remove(static_cast<Bytes>(block.bytes));
      ground_.memory().give(block.address, block.bytes);
    }
  }

  // Tells the engine that the block is used on that stream.
  void share(const Block& block, std::uint32_t stream) {
    bool puts_off = false;
    {
      const FailingAllocation failing(failure());
      puts_off = api_->shared(handle_, reinterpret_cast<void*>(block.address), kStreams[stream]) !=
                 PGMO_FOREIGN;
      if (failing.happened()) record_.memory_ran_out();
    }
    if (block.stream != stream) record_.shared(block.record, block.epoch);
    require(block.ours() || !puts_off, "a free is put off for the framework's own block");
    require(!block.ours() || block.stream == stream || puts_off,
            "a slot that another stream uses may be freed at once");
  }

  // A slot for a block that is about to be moved, or nothing.
  std::optional<Block> resettle(std::uint32_t request, std::uint64_t bytes) {
    ++events_;
    const auto size = static_cast<Bytes>(bytes);
    const std::uintptr_t address = engine_.resettle(request, size);
    if (address == 0) return std::nullopt;
    const RandomPlan& plan = plans_.at(engine_.selected_plan());
    Block block = unborn(bytes, plan.rows.at(request).stream_index);
    block.address = address;
    settle(block);
    require(block.home == Home::kArena, "a block is settled in a region");
    return block;
  }

  std::optional<Block> place(const KnownRegion& region, Offset offset, const Block& moved) {
    ++events_;
    Block block = unborn(moved.bytes, moved.stream);
    const auto size = static_cast<Bytes>(moved.bytes);
    const bool free = ground_.is_free(region, offset, size);
    const bool tried =
        survives([&] { block.address = engine_.place_in_region(region.number, offset, size); });
    require(!tried || (block.address != 0) == free, "a free place is refused, or one is not free");
    if (block.address == 0) return std::nullopt;
    block.home = Home::kRegion;
    ground_.oracle().served(block.address, block.bytes, region.base, 1);
    account_.regions.add(size);
    return block;
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
  Level& level_of(const Block& block) {
    return block.home == Home::kArena ? account_.slots : account_.regions;
  }

  Block unborn(std::uint64_t bytes, std::uint32_t stream) const {
    return {.address = 0,
            .bytes = bytes,
            .stream = stream,
            .home = Home::kFramework,
            .adopted = false,
            .record = Recorder::kNoBlock,
            .epoch = record_.epoch(),
            .generation = generation_};
  }

  // Where the engine has put it.
  void settle(Block& block) {
    if (ground_.in_opening(block.address)) {
      block.home = Home::kRegion;
      ground_.served_from_opening(block.address, block.bytes);
      ++opened_;
    } else {
      block.home = Home::kArena;
      ground_.served_from_arena(block.address, block.bytes, block.stream);
    }
    level_of(block).add(static_cast<Bytes>(block.bytes));
  }

  // Once memory has run out nothing is counted, except when there was none for the note of a place
  // for good.
  void count_request(std::uint64_t bytes, bool served, bool failed) {
    if (!served && failed) {
      const std::uint64_t requests = engine_.statistics().counters.requests;
      if (requests == account_.requests) return;
      require(ground_.opening().has_value(), "a request without memory is counted");
    }
    account_.requested(bytes);
  }

  // Whether memory ran out in it.
  bool adopt(Block& block) {
    const FailingAllocation failing(failure());
    void* const pointer = reinterpret_cast<void*>(block.address);
    block.adopted = api_->adopt(handle_, pointer, block.bytes, kStreams[block.stream]) != 0;
    require(failing.happened() || block.adopted == ((serving_ || record_.active()) && !paused_),
            "a block of the framework's is not adopted, or in bypass");
    if (block.adopted) {
      account_.fallback.add(static_cast<Bytes>(block.bytes));
      account_.fallback_bytes += block.bytes;
    }
    return failing.happened();
  }

  std::uint64_t events_ = 0;
  std::uint64_t opened_ = 0;
};

}  // namespace pgmo::test
