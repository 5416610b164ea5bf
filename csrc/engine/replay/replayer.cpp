#include "engine/replay/replayer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "checks.hpp"

namespace pgmo {

Offset Replayer::serve(RequestKey key) {
  const Slot& expected = plan_.slot(cursor_);
  if (expected.key == key) [[likely]] {
    const SlotIndex request = cursor_;
    plan_.prefetch(request);
    pass(request);
    cursor_ = request + 1;
    if (plan_.varying(request)) [[unlikely]]
      sizes_.note(request, key);
    return serve_at(request, key);
  }
  const Match match = resynchronise(key);
  if (match.request == kNoSlot) return miss(match.reason, key);
  return serve_at(match.request, key);
}

Bytes Replayer::release(Offset offset) noexcept {
  Place& place = plan_.place_at(offset);
  if (place.living == kNoSlot) return 0;
  place.living = kNoSlot;
  return place.bytes < 0 ? late_.erase(offset) : place.bytes;
}

void Replayer::end_iteration() {
  PGMO_ASSERT(cursor_ <= plan_.requests() && skipped_count_ <= skipped_.size());
  PGMO_ASSERT(now_ < static_cast<Tick>(plan_.requests()) || cursor_ == plan_.requests());
  pass(plan_.requests());
  counters_.skipped += skipped();
  restart();
}

// Return the number of requests of the plan that this iteration has not made.
std::uint64_t Replayer::skipped() const noexcept {
  const std::uint64_t matched = counters_.matched() - matched_before_;
  return matched < plan_.requests() ? plan_.requests() - matched : 0;
}

Replayer::Ending Replayer::ending() noexcept {
  Ending ending{.skipped = skipped()};
  for (const ReplayPlan::End* end = end_; end->tick <= plan_.requests(); ++end) {
    const Place& place = plan_.place_of(*end);
    ending.late += place.living == end->slot && place.bytes > 0;
  }
  return ending;
}

void Replayer::begin_at(std::uint32_t requests_so_far) {
  const SlotIndex cursor = std::min(requests_so_far, plan_.requests());
  if (cursor > 0) pass(cursor - 1);
  cursor_ = cursor;
  matched_before_ -= cursor;  // the previous plan has matched these requests: they are not skipped
}

void Replayer::make_living_late() {
  plan_.for_each_living([this](Place& place) {
    if (place.bytes > 0) late_.insert(place.offset, place.bytes);
    place.bytes = -std::abs(place.bytes);
  });
}

void Replayer::forget_living() noexcept {
  plan_.for_each_living([](Place& place) { place.living = kNoSlot; });
}

void Replayer::restart() noexcept {
  cursor_ = 0;
  now_ = -1;
  end_ = plan_.ends();
  skipped_count_ = 0;
  sizes_.forget();
  missed_ = kNoKey;
  matched_before_ = counters_.matched();
}

bool Replayer::expects(RequestKey key) const noexcept {
  return cursor_ < plan_.requests() && fits(cursor_, key);
}

int Replayer::prefix_score(std::span<const RequestKey> keys) const noexcept {
  if (keys.size() > plan_.requests()) return -1;
  Bytes score = 0;
  for (SlotIndex at = 0; at < keys.size(); ++at) {
    if (!fits(at, keys[at])) return -1;
    score += kFullScore * key_bytes(keys[at]) / key_bytes(plan_.slot(at).key);
  }
  return static_cast<int>(score);
}

// Return whether the slot of a request can serve a key: the request's own key, or any smaller size
// on the same stream if the request varies.
bool Replayer::fits(SlotIndex request, RequestKey key) const noexcept {
  const RequestKey own = plan_.slot(request).key;
  if (own == key) return true;
  return plan_.varying(request) && key_stream(own) == key_stream(key) &&
         key_bytes(own) >= key_bytes(key);
}

Offset Replayer::serve_at(SlotIndex request, RequestKey key) noexcept {
  missed_ = kNoKey;
  if (!plan_.planned(request)) [[unlikely]]
    return miss(Miss::kPersistent, key);
  if (shared_.lacks_arena(key_stream(key))) [[unlikely]]
    return miss(Miss::kNoArena, key);
  const Bytes bytes = key_bytes(key);
  Miss reason = Miss::kOccupied;
  for (SlotIndex index = request; index != kNoSlot; index = plan_.slot(index).alternate) {
    Place& place = plan_.place_of(plan_.slot(index));
    if (place.living != kNoSlot) [[unlikely]] {
      if (place.living != index) reason = Miss::kLate;  // another block, past its planned end
      continue;
    }
    if (!late_.empty() && late_.overlaps(place.offset, bytes)) [[unlikely]] {
      reason = Miss::kLate;
      continue;
    }
    PGMO_ASSERT(bytes > 0 && bytes <= key_bytes(plan_.slot(index).key));
    place.living = index;
    place.bytes = bytes;
    ++counters_.requests;
    ++counters_.hits;
    counters_.requested_bytes += static_cast<std::uint64_t>(bytes);
    counters_.hit_bytes += static_cast<std::uint64_t>(bytes);
    return place.offset;
  }
  return miss(reason, key);
}

Offset Replayer::miss(Miss reason, RequestKey key) noexcept {
  missed_ = reason == Miss::kUnknown ? key : kNoKey;
  counters_.missed(reason, key_bytes(key));
  return kUnplanned;
}

// Check all planned ends up to this tick, inclusive. Slots that live past their end become late.
void Replayer::pass(SlotIndex tick) {
  for (; end_->tick <= tick; ++end_) {
    Place& place = plan_.place_of(*end_);
    if (place.living == end_->slot && place.bytes > 0) [[unlikely]]
      make_late(place, end_->tick);
  }
  now_ = tick;
}

void Replayer::make_late(Place& place, Tick tick) {
  try {
    late_.insert(place.offset, place.bytes);
  } catch (...) {
    // All planned ends before this tick have been checked. If a request before this tick got a slot
    // now, the end of the slot would never be checked. So skip all requests up to this tick.
    now_ = tick;
    cursor_ = std::max(cursor_, static_cast<SlotIndex>(tick) + 1);
    skipped_count_ = 0;
    throw;
  }
  place.bytes = -place.bytes;
  ++counters_.late;
}

// Move the cursor past `request`, and remember the skipped requests.
Replayer::Match Replayer::advance_to(SlotIndex request) {
  pass(request);
  const SlotIndex recent = request - std::min(request - cursor_, heuristics_.look_ahead);
  for (SlotIndex at = recent; at < request; ++at) remember_skipped(at);
  cursor_ = request + 1;
  return {request};
}

void Replayer::remember_skipped(SlotIndex request) noexcept {
  if (skipped_count_ == heuristics_.look_ahead) {
    std::copy(skipped_.begin() + 1, skipped_.end(), skipped_.begin());
    --skipped_count_;
  }
  skipped_[skipped_count_++] = request;
}

}  // namespace pgmo
