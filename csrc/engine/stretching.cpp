// A plan that is made larger in the middle of an iteration, by the request that is the first to be
// larger than its slot: see replay/stretch.hpp.
//
//     allocate   lock: which plan, which request ──▶ no lock: the larger plan ──▶ lock: exchanged
//
// What lives in slots of the old one is late in the new one. It is exchanged only if nobody has
// changed the plans meanwhile. No range may be settled for the old plan while the new one comes:
// its slots would be taken for mapped.

#include <stdexcept>
#include <utility>

#include "checks.hpp"
#include "engine/engine.hpp"
#include "engine/replay/stretch.hpp"

namespace pgmo {

using Guard = std::lock_guard<Spinlock>;

// The lock is held.
Engine::Outgrown Engine::outgrown_by(RequestKey key) noexcept {
  const SlotIndex request = replayer_->too_large();
  if (request == kNoSlot || replayer_->rows() == nullptr) return {};
  // Small blocks cost little in windows, and their number and sizes may follow no length.
  if (key_bytes(key) < heuristics_.small_block) return {};
  if (stretching_ || settling_ > 0 || stretches_left_ == 0) return {};
  if (key_bytes(key) <= (*replayer_->rows())[request].bytes) return {};
  stretching_ = true;
  --stretches_left_;
  const ReplayPlan& plan = replayer_->plan();
  return {.rows = replayer_->rows(),
          .replayer = replayer_,
          .plans = plans_changed_,
          .request = request,
          .arena_bytes = plan.arena_bytes(),
          .alignment = plan.alignment()};
}

Engine::Placed Engine::stretch(const Outgrown& outgrown, RequestKey key) noexcept {
  const Bytes alignment = outgrown.alignment;
  std::unique_ptr<Replayer> larger;  // afterwards the old one, destroyed without the lock
  try {
    auto rows = pgmo::stretch(*outgrown.rows, outgrown.request, key_bytes(key), alignment);
    if (rows) {
      larger =
          std::make_unique<Replayer>(ReplayPlan(*rows, outgrown.arena_bytes, alignment), here_);
      larger->keep(*std::move(rows));
      unsettle_ranges();
    }
  } catch (const std::bad_alloc&) {
    larger.reset();
  } catch (const std::invalid_argument&) {
    larger.reset();  // beyond the arena
  }
  const Guard guard(lock_);
  stretching_ = false;
  if (larger == nullptr || replayer_ != outgrown.replayer || plans_changed_ != outgrown.plans) {
    return {};
  }
  try {
    check_slots(larger->plan(), arenas_);
    replayer_->make_living_late();
  } catch (const std::exception&) {
    return {};
  }
  PGMO_ASSERT_INTERNAL(settling_ == 0 && counts_all_slots());
  replayer_->forget_living();
  std::swap(plans_[selected_], larger);
  replayer_ = plans_[selected_].get();
  replayer_->rest();
  ++stretched_;
  here_.counters.forget(Miss::kTooLarge, key_bytes(key));
  try {
    replayer_->begin_at(outgrown.request);
    const Offset offset = replayer_->serve(key);
    if (offset != kUnplanned) return place(key, offset);
  } catch (const std::bad_alloc&) {
    here_.counters.missed(Miss::kTooLarge, key_bytes(key));
  }
  return {};
}

}  // namespace pgmo
