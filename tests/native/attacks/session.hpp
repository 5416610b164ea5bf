// Calls of a session, and the state that the engine must have after them: arenas, plans and modes.
// Each call may run out of memory, and must then have no effect.

#pragma once

#include <cstdint>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "account.hpp"
#include "engine/engine.hpp"
#include "expected_record.hpp"
#include "failing_new.hpp"
#include "ground.hpp"
#include "oracle.hpp"
#include "random_plan.hpp"

namespace pgmo::test {

class Session {
 public:
  static constexpr std::uint64_t kStreams[] = {0, 0x7f0000001000, 0x7f0000002000, 0xdead};
  static constexpr std::uint32_t kUnknownStream = 3;  // a stream that no plan has

  Session(Random& random, double failure_rate) : random_(random), failure_rate_(failure_rate) {}

  Engine& engine() { return engine_; }
  Ground& ground() { return ground_; }
  const ExpectedRecord& record() const { return record_; }
  const std::vector<RandomPlan>& plans() const { return plans_; }  // by number
  bool paused() const { return paused_; }

  // --- arenas ---

  bool attached() const { return ground_.attached(); }

  bool add_arena(std::uint32_t stream, Offset begin, std::uint64_t bytes, std::uint64_t alignment) {
    const bool fits = ground_.has_room_for(stream, begin, bytes) && holds(stream, begin, bytes);
    const pgmo_arena arena = ground_.take(bytes);
    const bool accepted =
        accepts([&] { engine_.add_arena(kStreams[stream], begin, arena); }, arena);
    require(accepted ? fits : !fits || ran_out_, "a stream's arena is refused, or wrongly not");
    if (accepted) ground_.set(stream, begin, arena, alignment);
    return accepted;
  }

  bool add_spill(Offset begin, std::uint64_t bytes, std::uint64_t alignment) {
    const bool fits = ground_.has_room_for_spill(begin) && holds_spill(begin, bytes);
    const pgmo_arena arena = ground_.take(bytes);
    const bool accepted = accepts([&] { engine_.add_spill(begin, arena); }, arena);
    require(accepted ? fits : !fits || ran_out_, "the spilled arena is refused, or wrongly not");
    if (accepted) ground_.set_spill(begin, arena, alignment);
    return accepted;
  }

  bool detach() {
    serving_ = false;
    if (!survives([&] { engine_.detach_arena(); })) return false;
    ground_.let_go();
    return true;
  }

  void yield_idle() {
    const bool idle = ground_.idle();
    bool yielded = false;
    const bool done = survives([&] { yielded = api_->yield_idle(handle_) != 0; });
    require(yielded ? idle : !idle || !done || ran_out_, "arenas are given back wrongly, or not");
    if (!yielded) return;
    ground_.let_go();
    ++yields_;
  }

  // --- plans and modes ---

  std::optional<Engine::PlanId> add_plan(const RandomPlan& plan) {
    std::optional<Engine::PlanId> id;
    survives([&] { id = engine_.add_plan(plan.rows, {kStreams, 3}, plan.arena, plan.alignment); });
    if (id) plans_.push_back(plan);
    require(!id || *id + 1 == plans_.size(), "plans are not numbered in their order");
    return id;
  }
  bool remove_plans() {
    serving_ = false;
    if (!survives([&] { engine_.remove_plans(); })) return false;
    plans_.clear();
    return true;
  }
  void select_plan(Engine::PlanId plan) {
    survives([&] { engine_.select_plan(plan); });
  }
  bool end_iteration() {
    record_.step();
    return survives([&] { engine_.end_iteration(); });
  }
  void start_serving() {
    engine_.start_serving();
    serving_ = true;
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
    record_.start();
  }
  void stop_recording() {
    record_.compare(engine_);
    engine_.stop_recording();
    record_.stop();
  }
  void reset_peaks() {
    engine_.reset_peaks();
    account_.reset_peaks();
  }

 protected:
  int failure() {
    if (failure_rate_ == 0 || !random_.chance(failure_rate_)) return -1;
    return static_cast<int>(random_.between(0, 2));
  }

  template <typename Work>
  bool survives(Work&& work) {
    const FailingAllocation failing(failure());
    bool done = true;
    try {
      work();
    } catch (const std::bad_alloc&) {
      done = false;
    } catch (...) {
      ran_out_ = failing.happened();
      throw;
    }
    ran_out_ = failing.happened();
    if (ran_out_) record_.memory_ran_out();
    return done;
  }

 private:
  // Return whether the engine accepts the range. If not, return the range to the framework.
  template <typename Work>
  bool accepts(Work&& work, const pgmo_arena& range) {
    bool accepted = false;
    try {
      accepted = survives(work);
    } catch (const std::invalid_argument&) {
    }
    if (!accepted) ground_.refused(range);
    return accepted;
  }

  // Return whether all slots of the stream, in every plan, lie within these offsets.
  bool holds(std::uint32_t stream, Offset begin, std::uint64_t bytes) const {
    const Offset end = begin + static_cast<Offset>(bytes);
    for (const RandomPlan& plan : plans_) {
      for (const PlannedRequest& row : plan.rows) {
        if (row.stream_index != stream) continue;
        for (const Offset offset : {row.offset, row.alternate}) {
          if (offset == kUnplanned || is_spilled(offset, row.bytes)) continue;
          if (offset < begin || offset + row.bytes > end) return false;
          if ((offset - begin) % plan.alignment != 0) return false;
        }
      }
    }
    return true;
  }

  bool is_spilled(Offset offset, Bytes bytes) const {
    const Ground::Arena& spill = ground_.spill();
    return spill.base != 0 && offset >= spill.begin &&
           offset + bytes <= spill.begin + static_cast<Bytes>(spill.bytes);
  }

  // Return whether all slots, in every plan, lie within these offsets or below.
  bool holds_spill(Offset begin, std::uint64_t bytes) const {
    const Offset end = begin + static_cast<Offset>(bytes);
    for (const RandomPlan& plan : plans_) {
      for (const PlannedRequest& row : plan.rows) {
        for (const Offset offset : {row.offset, row.alternate}) {
          if (offset == kUnplanned || offset + row.bytes <= begin) continue;
          if (offset < begin || offset + row.bytes > end) return false;
          if ((offset - begin) % plan.alignment != 0) return false;
        }
      }
    }
    return true;
  }

  bool ran_out_ = false;  // whether memory ran out in the last fallible call

 protected:
  Random& random_;
  double failure_rate_;
  Engine engine_;
  const pgmo_engine_api* api_ = engine_api();
  pgmo_engine* handle_ = reinterpret_cast<pgmo_engine*>(&engine_);

  Ground ground_;
  Account account_;
  ExpectedRecord record_;
  std::vector<RandomPlan> plans_;

  bool serving_ = false;
  bool paused_ = false;
  std::uint64_t yields_ = 0;
};

}  // namespace pgmo::test
