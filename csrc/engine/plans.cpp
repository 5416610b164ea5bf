// Adds and removes plans, and selects the plan that an iteration follows.

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "checks.hpp"
#include "engine/engine.hpp"

namespace pgmo {

Engine::PlanId Engine::add_plan(std::vector<PlannedRequest> requests,
                                std::span<const std::uint64_t> streams, Bytes arena_bytes,
                                Bytes alignment, std::vector<Tick> behind) {
  if (!behind.empty() && behind.size() != requests.size() * streams.size()) {
    throw std::invalid_argument("the order of streams has " + std::to_string(behind.size()) +
                                " entries, expected requests x streams: " +
                                std::to_string(requests.size() * streams.size()));
  }
  // Building the replay plan takes long, so the lock is not held meanwhile.
  const std::vector<std::uint32_t> indices = indices_of(streams);
  for (PlannedRequest& request : requests) {
    if (request.stream_index >= indices.size()) throw std::invalid_argument("unknown stream");
    request.stream_index = indices[request.stream_index];
  }
  auto order = std::make_unique<const StreamOrder>(StreamOrder{indices, std::move(behind)});
  auto replayer = std::make_unique<Replayer>(ReplayPlan(requests, arena_bytes, alignment), shared_);
  unsettle_ranges();
  const Guard guard(lock_);
  PGMO_ASSERT_INTERNAL(settling_ == 0 && counts_all_slots());
  check_slots(replayer->plan(), arenas_);
  const PlanId plan = static_cast<PlanId>(plans_.size());
  plans_.reserve(plan + 1);
  orders_.reserve(plan + 1);
  successors_.reserve(plan + 1);
  plans_.push_back(std::move(replayer));
  orders_.push_back(std::move(order));
  successors_.push_back(plan);
  ++plans_changed_;
  if (replayer_ == nullptr) switch_to(plan);
  return plan;
}

void Engine::select_plan(PlanId plan) {
  const Guard guard(lock_);
  if (plan >= plans_.size()) throw std::invalid_argument("no such plan");
  if (plan != selected_) switch_to(plan);
}

void Engine::remove_plans() {
  std::vector<std::unique_ptr<Replayer>> plans;  // destroyed after the guard
  std::vector<std::unique_ptr<const StreamOrder>> orders;
  const Guard guard(lock_);
  set(PGMO_SERVING, false);
  passing_.stop();
  if (replayer_ != nullptr) replayer_->retire_living();
  replayer_ = nullptr;
  ++plans_changed_;
  selected_ = previous_ = 0;
  plans.swap(plans_);
  orders.swap(orders_);
  successors_.clear();
}

Engine::PlanId Engine::ended_plan() {
  const Guard guard(lock_);
  return previous_;
}

std::vector<Grown> Engine::take_grown() {
  const Guard guard(lock_);
  return replayer_ != nullptr ? plans_[previous_]->take_grown() : std::vector<Grown>{};
}

void Engine::check_slots(const ReplayPlan& plan, const Arenas& arenas) const {
  for (SlotIndex request = 0; request < plan.requests(); ++request) {
    for (SlotIndex slot = request; slot != kNoSlot && plan.planned(slot);
         slot = plan.slot(slot).alternate) {
      const RequestKey key = plan.slot(slot).key;
      if (!arenas.has_room(key_stream(key), plan.offset_of(slot), key_bytes(key),
                           plan.alignment())) {
        throw std::invalid_argument("request " + std::to_string(request) +
                                    ": the slot lies outside the arena of its stream, or is not "
                                    "aligned there");
      }
    }
  }
}

void Engine::check_plans(const Arenas& arenas) const {
  for (const auto& one : plans_) check_slots(one->plan(), arenas);
}

// Select the plan that fits the first requests of an iteration best. While all requests fit the
// selected plan, it stays, unless another plan fits clearly better. Fitting alone is a weak sign,
// because a small request fits any varying slot. Requires the lock.
void Engine::choose_plan(RequestKey key) {
  prefix_[requests_so_far_++] = key;
  const std::span<const RequestKey> seen(prefix_.data(), requests_so_far_);
  const int own = replayer_->expects(key) ? replayer_->prefix_score(seen) : -1;
  // If the selected plan does not fit, any plan that fits replaces it: the arena has room for all
  // plans. A change at the first request costs nothing, because nothing has been served yet. A
  // later change makes the blocks served so far late, so the other plan must fit clearly better.
  const int margin = requests_so_far_ == 1 ? 0 : Replayer::kFullScore - 1;
  int best = own < 0 ? -1 : own + margin;
  PlanId choice = selected_;
  for (PlanId plan = 0; plan < plans_.size(); ++plan) {
    const int score = plan == selected_ ? -1 : plans_[plan]->prefix_score(seen);
    if (score > best) {
      best = score;
      choice = plan;
    }
  }
  if (choice == selected_) return;
  switch_to(choice);
  replayer_->begin_at(requests_so_far_ - 1);
  ++shared_.counters.takeovers;
}

void Engine::switch_to(PlanId plan) {
  if (replayer_ != nullptr) replayer_->retire_living();
  selected_ = plan;
  replayer_ = plans_[plan].get();
  replayer_->restart();
}

}  // namespace pgmo
