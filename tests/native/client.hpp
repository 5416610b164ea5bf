// What an adapter does, and an account of it: every call goes to the engine and to the oracle, and
// the engine's statistics and records have to agree with the account.

#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "engine/engine.hpp"
#include "failing_new.hpp"
#include "oracle.hpp"
#include "pretended_memory.hpp"
#include "random_plan.hpp"

namespace pgmo::test {

struct Block {
  std::uintptr_t address;
  std::uint64_t bytes;
  bool slot;
  bool adopted;
  std::uint32_t record;  // its number in recording `epoch`
  std::uint32_t epoch;
};

class Client {
 public:
  static constexpr std::uint64_t kStreams[] = {0, 0x7f0000001000, 0x7f0000002000, 0xdead};
  static constexpr std::uint32_t kUnknownStream = 3;  // in no plan

  Client(Random& random, double failure_rate) : random_(random), failure_rate_(failure_rate) {}

  Engine& engine() { return engine_; }
  bool serving() const { return serving_; }
  bool recording() const { return recording_; }
  bool paused() const { return paused_; }
  std::uint64_t events() const { return events_; }
  std::uint64_t hits() const { return hits_; }

  // --- what a program does ---

  Block request(std::uint64_t bytes, std::uint32_t stream) {
    ++events_;
    ++whereabouts.event;
    const std::uint64_t handle = kStreams[stream];
    Block block{.address = 0,
                .bytes = bytes,
                .slot = false,
                .adopted = false,
                .record = Recorder::kNoBlock,
                .epoch = epoch_};
    bool failed = false;
    {
      const FailingAllocation failing(failure());
      block.address = reinterpret_cast<std::uintptr_t>(api_->allocate(handle_, bytes, handle));
      failed = failing.happened();
    }
    block.slot = block.address != 0;
    if (serving_ && !paused_ && (block.slot || !failed)) {
      ++requests_;
      requested_bytes_ += bytes;
    }
    if (block.slot) {
      require(serving_ && !paused_, "a slot is served while the engine does not serve");
      oracle_.served(block.address, bytes, base_, alignment_);
      ++hits_;
      hit_bytes_ += bytes;
      slots_.add(static_cast<Bytes>(bytes));
      block.adopted = true;
    } else {
      block.address = memory_.take(bytes);
      oracle_.lives(block.address, bytes);
      failed |= adopt(block, handle);
    }
    if (recording_ && !paused_) note_request(block, handle, failed);
    return block;
  }

  void release(const Block& block) {
    ++events_;
    ++whereabouts.event;
    oracle_.dies(block.address);
    void* const pointer = reinterpret_cast<void*>(block.address);
    require((api_->owns(handle_, pointer) != 0) == block.slot,
            "the engine does not know which blocks lie in its arenas");
    // A block that was not adopted need not be released through the engine, but may be.
    if (block.adopted || random_.chance(0.5)) {
      const FailingAllocation failing(failure());
      const int kind = api_->release(handle_, pointer);
      require((kind == PGMO_SLOT) == block.slot, "a slot is taken for the framework's, or not");
      if (recording_ && failing.happened()) record_is_complete_ = false;
    }
    if (recording_ && block.record != Recorder::kNoBlock && block.epoch == epoch_) {
      record_.push_back({.kind = Event::kFree, .block = block.record, .bytes = 0, .stream = 0});
    }
    if (block.slot) {
      slots_.remove(static_cast<Bytes>(block.bytes));
    } else {
      if (block.adopted) fallback_.remove(static_cast<Bytes>(block.bytes));
      memory_.give(block.address, block.bytes);
    }
  }

  // --- what the session does; each may run out of memory, and is then as if it had not been ---

  bool attach(std::uint64_t bytes, std::uint64_t alignment) {
    const std::uintptr_t base = memory_.take(bytes);
    tokens_.push_back({this, base});
    oracle_.arena_taken(base, bytes);
    const pgmo_arena arena{reinterpret_cast<void*>(base), bytes, give_back, &tokens_.back()};
    bool refused = false;
    try {
      const FailingAllocation failing(failure());
      engine_.attach_arena(arena);
    } catch (const std::bad_alloc&) {
      refused = true;
    } catch (const std::invalid_argument&) {
      refused = true;
    }
    if (refused) {
      return_arena(base);
      return false;
    }
    base_ = base;
    alignment_ = alignment;
    return true;
  }

  bool detach() {
    serving_ = false;
    if (!survives([&] { engine_.detach_arena(); })) return false;
    base_ = 0;
    return true;
  }

  std::optional<Engine::PlanId> add_plan(const RandomPlan& plan) {
    std::optional<Engine::PlanId> id;
    survives([&] { id = engine_.add_plan(plan.rows, {kStreams, 3}, plan.arena, plan.alignment); });
    return id;
  }
  bool remove_plans() {
    serving_ = false;
    return survives([&] { engine_.remove_plans(); });
  }
  void select_plan(Engine::PlanId plan) {
    survives([&] { engine_.select_plan(plan); });
  }
  void end_iteration() {
    if (recording_) {
      record_.push_back(
          {.kind = Event::kStep, .block = Recorder::kNoBlock, .bytes = 0, .stream = 0});
    }
    survives([&] { engine_.end_iteration(); });
  }
  void start_serving() {
    engine_.start_serving();
    serving_ = true;
  }
  void stop_serving() {
    engine_.stop_serving();
    serving_ = false;
  }
  void pause() {
    engine_.pause();
    paused_ = true;
  }
  void resume() {
    engine_.resume();
    paused_ = false;
  }
  void start_recording() {
    engine_.start_recording();
    recording_ = true;
    record_is_complete_ = true;
    record_.clear();
    recorded_blocks_ = 0;
    ++epoch_;
  }
  void stop_recording() {
    compare_record();
    engine_.stop_recording();
    recording_ = false;
  }
  void reset_peaks() {
    engine_.reset_peaks();
    slots_.peak = slots_.live;
    fallback_.peak = fallback_.live;
  }

  // --- the account ---

  void compare_statistics() {
    const Statistics all = engine_.statistics();
    std::uint64_t misses = 0;
    for (const std::uint64_t reason : all.counters.misses) misses += reason;
    require_equal(all.counters.hits + misses, all.counters.requests, "hits and misses");
    require_equal(all.counters.requests, requests_, "requests");
    require_equal(all.counters.requested_bytes, requested_bytes_, "requested bytes");
    require_equal(all.counters.hits, hits_, "hits");
    require_equal(all.counters.hit_bytes, hit_bytes_, "hit bytes");
    require_equal(value(all.slots.live), value(slots_.live), "live slot bytes");
    require_equal(value(all.slots.peak), value(slots_.peak), "peak slot bytes");
    require_equal(value(all.fallback.live), value(fallback_.live), "live fallback bytes");
    require_equal(value(all.fallback.peak), value(fallback_.peak), "peak fallback bytes");
    require_equal(all.fallback_bytes, fallback_bytes_, "fallback bytes");
    require_equal(value(all.arena_bytes), oracle_.arena_bytes(), "arena bytes");
    require_equal(all.arenas, oracle_.arenas(), "arenas");
    const std::uint32_t mode = paused_ ? 0u
                                       : (recording_ ? std::uint32_t{PGMO_RECORDING} : 0u) |
                                             (serving_ ? std::uint32_t{PGMO_SERVING} : 0u);
    require_equal(*api_->mode(handle_), mode, "mode");
  }

  void compare_record() {
    if (!record_is_complete_ || !recording_) return;
    const std::vector<Event> events = engine_.events(0);
    require_equal(events.size(), record_.size(), "recorded events");
    for (std::size_t at = 0; at < events.size(); ++at) {
      require(events[at].kind == record_[at].kind && events[at].block == record_[at].block &&
                  events[at].bytes == record_[at].bytes && events[at].stream == record_[at].stream,
              "a recorded event is not what happened");
    }
  }

  // With everything freed and the arena detached.
  void compare_end() {
    compare_statistics();
    require_equal(engine_.statistics().late_now, 0, "late blocks at the end");
    require_equal(value(engine_.statistics().slots.live), 0, "live slot bytes at the end");
    require_equal(oracle_.living(), 0, "living blocks at the end");
    require_equal(oracle_.arenas(), 0, "arenas that were never given back");
  }

 private:
  struct Token {
    Client* client;
    std::uintptr_t base;
  };
  struct Noted {
    Event::Kind kind;
    std::uint32_t block;
    Bytes bytes;
    std::uint64_t stream;
  };

  static void give_back(void* context) {
    allocations_until_failure = -1;  // the failures are meant for the engine
    const Token& token = *static_cast<Token*>(context);
    token.client->return_arena(token.base);
  }
  static std::uint64_t value(Bytes bytes) { return static_cast<std::uint64_t>(bytes); }

  void return_arena(std::uintptr_t base) { memory_.give(base, oracle_.arena_given_back(base)); }

  int failure() {
    if (failure_rate_ == 0 || !random_.chance(failure_rate_)) return -1;
    return static_cast<int>(random_.between(0, 2));
  }

  template <typename Work>
  bool survives(Work&& work) {
    bool done = true;
    {
      const FailingAllocation failing(failure());
      try {
        work();
      } catch (const std::bad_alloc&) {
        done = false;
      }
      if (failing.happened()) record_is_complete_ = false;
    }
    return done;
  }

  // Whether memory ran out in it.
  bool adopt(Block& block, std::uint64_t stream) {
    const FailingAllocation failing(failure());
    void* const pointer = reinterpret_cast<void*>(block.address);
    block.adopted = api_->adopt(handle_, pointer, block.bytes, stream) != 0;
    require(failing.happened() || block.adopted == ((serving_ || recording_) && !paused_),
            "a block of the framework's is not adopted, or in bypass");
    if (block.adopted) {
      fallback_.add(static_cast<Bytes>(block.bytes));
      fallback_bytes_ += block.bytes;
    }
    return failing.happened();
  }

  void note_request(Block& block, std::uint64_t stream, bool failed) {
    if (failed) record_is_complete_ = false;
    block.record = recorded_blocks_++;
    record_.push_back({.kind = Event::kRequest,
                       .block = block.record,
                       .bytes = static_cast<Bytes>(block.bytes),
                       .stream = stream});
  }

  Random& random_;
  double failure_rate_;
  Engine engine_;
  const pgmo_engine_api* api_ = engine_api();
  pgmo_engine* handle_ = reinterpret_cast<pgmo_engine*>(&engine_);

  Oracle oracle_;
  PretendedMemory memory_;
  std::deque<Token> tokens_;
  std::uintptr_t base_ = 0;
  std::uint64_t alignment_ = 1;

  bool serving_ = false;
  bool recording_ = false;
  bool paused_ = false;
  bool record_is_complete_ = true;
  std::vector<Noted> record_;
  std::uint32_t recorded_blocks_ = 0;
  std::uint32_t epoch_ = 0;

  std::uint64_t events_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t requested_bytes_ = 0;
  std::uint64_t hits_ = 0;
  std::uint64_t hit_bytes_ = 0;
  std::uint64_t fallback_bytes_ = 0;
  Level slots_;
  Level fallback_;
};

}  // namespace pgmo::test
