#include "engine/replay/replayer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>

namespace pgmo {

Offset Replayer::serve(RequestKey key) {
  const Slot& expected = plan_.slot(cursor_);
  if (expected.key == key) [[likely]] {
    const SlotIndex request = cursor_;
    plan_.prefetch(request);
    pass(request);
    cursor_ = request + 1;
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
  pass(plan_.requests());
  const std::uint64_t answered = counters_.answered() - answered_before_;
  if (answered < plan_.requests()) counters_.skipped += plan_.requests() - answered;
  rewind();
}

void Replayer::begin_at(std::uint32_t requests_so_far) {
  const SlotIndex cursor = std::min(requests_so_far, plan_.requests());
  if (cursor > 0) pass(cursor - 1);
  cursor_ = cursor;
  answered_before_ -= cursor;  // the plan before has answered these
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

void Replayer::rewind() noexcept {
  cursor_ = 0;
  now_ = -1;
  end_ = plan_.ends();
  skipped_count_ = 0;
  outgrown_ = false;
  ratios_ = {};
  next_ratio_ = 0;
  missed_ = kNoKey;
  answered_before_ = counters_.answered();
}

bool Replayer::expects(RequestKey key) const noexcept {
  return cursor_ < plan_.requests() && fits(cursor_, key);
}

int Replayer::prefix_score(std::span<const RequestKey> keys) const noexcept {
  if (keys.size() > plan_.requests()) return -1;
  Bytes score = 0;
  for (SlotIndex at = 0; at < keys.size(); ++at) {
    if (!fits(at, keys[at])) return -1;
    score += tuning::kFullScore * key_bytes(keys[at]) / key_bytes(plan_.slot(at).key);
  }
  return static_cast<int>(score);
}

// A slot serves its own size, and a varying one every smaller size as well.
bool Replayer::fits(SlotIndex request, RequestKey key) const noexcept {
  const RequestKey own = plan_.slot(request).key;
  if (own == key) return true;
  return plan_.varying(request) && key_stream(own) == key_stream(key) &&
         key_bytes(own) >= key_bytes(key);
}

Replayer::Match Replayer::resynchronise(RequestKey key) {
  const bool at_varying = cursor_ < plan_.requests() && plan_.varying(cursor_);
  if (at_varying && fits(cursor_, key)) {
    // By ordinal, unless the very next request is a fixed one of exactly this size: then the
    // varying one was left out. But sizes often are fixed ones by chance; one that is smaller than
    // planned by as much as the requests before it is no chance.
    const SlotIndex next = cursor_ + 1;
    const bool left_out = next < plan_.requests() && !plan_.varying(next) &&
                          plan_.slot(next).key == key && !shrunk_alike(key);
    note_shrinkage(key);
    outgrown_ = false;
    return advance_to(left_out ? next : cursor_);
  }
  const bool larger = at_varying && key_stream(key) == key_stream(plan_.slot(cursor_).key) &&
                      key_bytes(key) > key_bytes(plan_.slot(cursor_).key);
  if (larger && outgrown_) return too_large(key);
  if (const SlotIndex request = find_skipped(key); request != kNoSlot) return {request};
  const bool known = plan_.occurrences(key) > 0;
  if (known) {
    if (const SlotIndex request = find_near(key); request != kNoSlot) return advance_to(request);
    if (const SlotIndex request = find_far(key, /*rare_is_proof=*/!larger); request != kNoSlot) {
      const Match match = advance_to(request);
      ++counters_.jumps;
      return match;
    }
  }
  if (larger) return too_large(key);
  if (!known) {
    // Where few vary, as in a plan that was predicted, one that is far away proves nothing.
    const SlotIndex window = plan_.varies_much() ? tuning::kVaryingWindow : tuning::kNearWindow;
    const SlotIndex until = std::min(plan_.requests(), cursor_ + window);
    if (const auto request = plan_.next_varying(key, cursor_, until)) return advance_to(*request);
  }
  return {kNoSlot, Miss::kUnknown};
}

// Whether the request is to its slot as an earlier one of this iteration was to its own. There are
// few ratios: of what grows with the sequence, with its square, in steps, or hardly at all.
bool Replayer::shrunk_alike(RequestKey key) const noexcept {
  const double ratio = ratio_to_slot(key);
  return std::any_of(ratios_.begin(), ratios_.end(), [ratio](double one) {
    return std::abs(ratio - one) <= tuning::kRatioTolerance * one;
  });
}

void Replayer::note_shrinkage(RequestKey key) noexcept {
  if (shrunk_alike(key)) return;
  ratios_[next_ratio_++ % ratios_.size()] = ratio_to_slot(key);
}

double Replayer::ratio_to_slot(RequestKey key) const noexcept {
  return static_cast<double>(key_bytes(key)) /
         static_cast<double>(key_bytes(plan_.slot(cursor_).key));
}

// The right request at a size beyond the plan's. An iteration whose varying requests have outgrown
// the plan goes on like that, so from then on a size that some fixed request happens to have, too,
// proves nothing.
Replayer::Match Replayer::too_large(RequestKey key) {
  const SlotIndex request = cursor_;
  if (grown_.size() < tuning::kMostGrown) grown_.push_back({request, key_bytes(key)});
  advance_to(request);
  outgrown_ = true;
  return {kNoSlot, Miss::kTooLarge};
}

// Skipped requests whose planned lifetime still contains `now` may be served after all.
SlotIndex Replayer::find_skipped(RequestKey key) {
  for (std::size_t at = 0; at < skipped_count_; ++at) {
    const SlotIndex request = skipped_[at];
    if (plan_.slot(request).key != key || plan_.end_of(request) <= now_) continue;
    std::copy(skipped_.begin() + at + 1, skipped_.begin() + skipped_count_, skipped_.begin() + at);
    --skipped_count_;
    return request;
  }
  return kNoSlot;
}

SlotIndex Replayer::find_near(RequestKey key) const noexcept {
  const SlotIndex until = std::min(plan_.requests(), cursor_ + tuning::kNearWindow);
  for (SlotIndex request = cursor_; request < until; ++request) {
    if (plan_.slot(request).key == key) return request;
  }
  return kNoSlot;
}

SlotIndex Replayer::find_far(RequestKey key, bool rare_is_proof) const noexcept {
  const std::uint64_t until = std::uint64_t{cursor_} + tuning::kFarWindow;
  SlotIndex from = cursor_;
  const bool rare = rare_is_proof && plan_.occurrences(key) <= tuning::kRare;
  for (int candidates = 0; candidates < tuning::kMostCandidates; ++candidates) {
    const auto found = plan_.next_exact(key, from);
    if (!found || *found >= until) break;
    if (rare || (*found > 0 && plan_.slot(*found - 1).key == missed_)) return *found;
    from = *found + 1;
  }
  return kNoSlot;
}

Offset Replayer::serve_at(SlotIndex request, RequestKey key) noexcept {
  missed_ = kNoKey;
  if (!plan_.planned(request)) [[unlikely]]
    return miss(Miss::kPersistent, key);
  if (surroundings_.nowhere(key_stream(key))) [[unlikely]]
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
  if (reason == Miss::kUnknown) missed_ = key;
  counters_.missed(reason, key_bytes(key));
  return kUnplanned;
}

// Looks at all planned ends up to and including this tick: what is still alive is late from now on.
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
    // Ends before this tick have been passed. Were a slot served that lies before it, its own end
    // would be looked at no more, so the cursor has to leave those requests behind.
    now_ = tick;
    cursor_ = std::max(cursor_, static_cast<SlotIndex>(tick) + 1);
    skipped_count_ = 0;
    throw;
  }
  place.bytes = -place.bytes;
  ++counters_.late;
}

// Puts the cursor behind `request`; those in between were skipped.
Replayer::Match Replayer::advance_to(SlotIndex request) {
  pass(request);
  const SlotIndex recent =
      request -
      std::min<SlotIndex>(request - cursor_, static_cast<SlotIndex>(tuning::kMostSkipped));
  for (SlotIndex at = recent; at < request; ++at) remember_skipped(at);
  cursor_ = request + 1;
  return {request};
}

void Replayer::remember_skipped(SlotIndex request) noexcept {
  if (skipped_count_ == tuning::kMostSkipped) {
    std::copy(skipped_.begin() + 1, skipped_.end(), skipped_.begin());
    --skipped_count_;
  }
  skipped_[skipped_count_++] = request;
}

}  // namespace pgmo
