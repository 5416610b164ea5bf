#include "engine/replay/replayer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>

namespace pgmo {

namespace {

bool close(double own, double other) noexcept {
  return std::abs(own - other) <= tuning::kRatioTolerance * other;
}

}  // namespace

Offset Replayer::serve(RequestKey key) {
  const Slot& expected = plan_.slot(cursor_);
  if (expected.key == key) [[likely]] {
    const SlotIndex request = cursor_;
    plan_.prefetch(request);
    pass(request);
    cursor_ = request + 1;
    if (plan_.varying(request)) [[unlikely]]
      note_size(request, key);
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

Replayer::Ending Replayer::ending() noexcept {
  Ending ending;
  const std::uint64_t answered = counters_.answered() - answered_before_;
  if (answered < plan_.requests()) ending.skipped = plan_.requests() - answered;
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
  forget_sizes();
  outgrown_ = false;
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

int Replayer::growth_score(std::span<const RequestKey> keys) const noexcept {
  if (keys.size() > plan_.requests()) return -1;
  Bytes score = 0;
  for (SlotIndex at = 0; at < keys.size(); ++at) {
    const Bytes bytes = key_bytes(keys[at]);
    const Bytes planned = key_bytes(plan_.slot(at).key);
    if (!fits(at, keys[at]) && !may_have_grown(at, keys[at])) return -1;
    score += tuning::kFullScore * std::min(bytes, planned) / std::max(bytes, planned);
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
  leave_small_change(key);
  const bool varies = varies_for(cursor_, key);
  if (varies && (is_known(cursor_, key) || (is_open(cursor_) && alike(cursor_, key)))) {
    return take(cursor_, key);
  }
  if (const SlotIndex request = find_skipped(key); request != kNoSlot) return {request};
  // Where it may as well be the next one, of which nothing is known yet, only few were left out.
  const bool open = varies && is_open(cursor_);
  const SlotIndex window = open ? tuning::kOpenWindow : tuning::kNearWindow;
  if (const SlotIndex request = find_known(key, window); request != kNoSlot) {
    return take(request, key);
  }
  if (const SlotIndex request = find_alike(key, window); request != kNoSlot) {
    return take(request, key);
  }
  if (const SlotIndex request = find_far(key); request != kNoSlot) {
    const Match match = advance_to(request);
    ++counters_.jumps;
    return match;
  }
  if (varies && open && !plausible(cursor_, key)) return {kNoSlot, Miss::kUnknown};
  if (varies && (open || alike(cursor_, key))) return take(cursor_, key);
  if (!varies) {
    const SlotIndex request = find_open(key);
    return request == kNoSlot ? Match{kNoSlot, Miss::kUnknown} : take(request, key);
  }
  if (!plausible(cursor_, key)) return {kNoSlot, Miss::kUnknown};
  // By its place alone: sizes of small change depend on samples, not on the length of all.
  if (!plan_.landmark(cursor_)) return take(cursor_, key);
  if (++contradictions_ < tuning::kContradictions) return {kNoSlot, Miss::kUnknown};
  forget_sizes();  // a micro-batch of another length has begun
  return take(behind_missed(key), key);
}

// A tensor that comes amid small change tells that this is over: there may be more of it in one
// iteration than in another, as where each sample of a batch is a tensor first.
void Replayer::leave_small_change(RequestKey key) {
  if (!plan_.is_large(key_bytes(key)) || cursor_ >= plan_.requests()) return;
  const SlotIndex until = std::min(plan_.requests(), cursor_ + tuning::kSmallWindow);
  SlotIndex next = cursor_;
  while (next < until && !plan_.landmark(next)) ++next;
  if (next == cursor_ || next == until || may_have_grown(cursor_, key)) return;
  if (plan_.slot(next).key != key && !(varies_for(next, key) && plausible(next, key))) return;
  advance_to(next);
  cursor_ = next;
}

// Whether small change is some times as much today, as all that grows with the length.
bool Replayer::may_have_grown(SlotIndex request, RequestKey key) const noexcept {
  return varies_for(request, key) &&
         key_bytes(key) <= tuning::kGrows * key_bytes(plan_.slot(request).key);
}

// The request that contradicted first has had no slot, but it was the one under the cursor.
SlotIndex Replayer::behind_missed(RequestKey key) noexcept {
  const SlotIndex next = cursor_ + 1;
  if (missed_ == kNoKey || next >= plan_.requests() || !fits(cursor_, missed_)) return cursor_;
  if (!fits(next, key) || !plausible(cursor_, missed_) || !plausible(next, key)) return cursor_;
  note_size(cursor_, missed_);
  return next;
}

void Replayer::forget_sizes() noexcept {
  std::fill(today_.begin(), today_.end(), 0);
  ratio_count_ = 0;
  contradictions_ = 0;
}

// Whether a request may be this one at another size than planned.
bool Replayer::varies_for(SlotIndex request, RequestKey key) const noexcept {
  return request < plan_.requests() && plan_.varying(request) &&
         key_stream(key) == key_stream(plan_.slot(request).key);
}

// Whether it is certain by now that a request has this size today.
bool Replayer::is_known(SlotIndex request, RequestKey key) const noexcept {
  if (!plan_.varying(request)) return plan_.slot(request).key == key;
  return varies_for(request, key) && today_[plan_.size_class(request)] == key_bytes(key);
}

bool Replayer::is_open(SlotIndex request) const noexcept {
  return today_[plan_.size_class(request)] == 0;
}

// By a ratio that others have changed by, or by its square, as what grows with that of the length.
bool Replayer::alike(SlotIndex request, RequestKey key) const noexcept {
  const double own = ratio(request, key);
  return std::any_of(ratios_.begin(), ratios_.begin() + static_cast<std::ptrdiff_t>(ratio_count_),
                     [own](double one) { return close(own, one) || close(own, one * one); });
}

void Replayer::note_size(SlotIndex request, RequestKey key) noexcept {
  Bytes& today = today_[plan_.size_class(request)];
  if (today == key_bytes(key)) {
    contradictions_ = 0;
    return;
  }
  today = key_bytes(key);
  if (!plan_.landmark(request)) return;  // it may be one sample's, and not the length of all
  if (ratio_count_ < ratios_.size() && !alike(request, key)) {
    ratios_[ratio_count_++] = ratio(request, key);
  }
}

double Replayer::ratio(SlotIndex request, RequestKey key) const noexcept {
  return static_cast<double>(key_bytes(key)) /
         static_cast<double>(key_bytes(plan_.slot(request).key));
}

// It is this request; whether there is room for it is another question.
Replayer::Match Replayer::take(SlotIndex request, RequestKey key) {
  if (plan_.varying(request)) note_size(request, key);
  if (!fits(request, key)) return too_large(request, key);
  return advance_to(request);
}

// The right request at a size beyond the plan's.
Replayer::Match Replayer::too_large(SlotIndex request, RequestKey key) {
  if (grown_.size() < tuning::kMostGrown) grown_.push_back({request, key_bytes(key)});
  advance_to(request);
  // Small change says nothing of the others.
  const bool tells = plan_.landmark(request);
  outgrown_ = outgrown_ || tells;
  too_large_ = tells ? request : kNoSlot;
  return {kNoSlot, Miss::kTooLarge};
}

// Skipped requests whose planned lifetime still contains `now` may be served after all.
SlotIndex Replayer::find_skipped(RequestKey key) {
  for (std::size_t at = 0; at < skipped_count_; ++at) {
    const SlotIndex request = skipped_[at];
    if (!is_known(request, key) || !fits(request, key) || plan_.end_of(request) <= now_) continue;
    std::copy(skipped_.begin() + at + 1, skipped_.begin() + skipped_count_, skipped_.begin() + at);
    --skipped_count_;
    return request;
  }
  return kNoSlot;
}

SlotIndex Replayer::find_known(RequestKey key, SlotIndex window) const noexcept {
  const SlotIndex until = std::min(plan_.requests(), cursor_ + window);
  for (SlotIndex request = cursor_; request < until; ++request) {
    const bool by_chance = plan_.varying(request) && !plan_.landmark(request);
    if (by_chance && request != cursor_) continue;
    if (is_known(request, key) && tells(request, tuning::kLeftOut)) return request;
  }
  return kNoSlot;
}

// Whether a request that comes tells that all before the planned one were left out. A number that
// is copied for a log does not, though the plan has such a one among its tensors; but one of these
// may be a workspace that is not always needed.
bool Replayer::tells(SlotIndex request, std::uint32_t left_out) const noexcept {
  if (plan_.landmark(request)) return true;
  const std::uint32_t passed = plan_.landmarks_within(cursor_, request);
  return passed == 0 || (passed <= left_out && request == cursor_ + passed);
}

// Whether a request may be this one at a size that is not known yet.
bool Replayer::plausible(SlotIndex request, RequestKey key) const noexcept {
  const Bytes planned = key_bytes(plan_.slot(request).key);
  if (key_bytes(key) <= tuning::kNumber && planned >= tuning::kTensor) return false;
  const bool large = plan_.is_large(key_bytes(key));
  if (!plan_.landmark(request)) {
    return (!large && key_bytes(key) < tuning::kSample) || may_have_grown(request, key);
  }
  if (large) return true;
  return key_bytes(key) >= std::min(tuning::kSample, planned / tuning::kShrinks);
}

SlotIndex Replayer::find_alike(RequestKey key, SlotIndex window) const noexcept {
  const SlotIndex until = std::min(plan_.requests(), cursor_ + window);
  for (SlotIndex request = cursor_; request < until; ++request) {
    if (!varies_for(request, key) || !is_open(request)) continue;
    if (alike(request, key) && tells(request, 0)) return request;
  }
  return kNoSlot;
}

SlotIndex Replayer::find_open(RequestKey key) const noexcept {
  const SlotIndex until = std::min(plan_.requests(), cursor_ + tuning::kOpenWindow);
  for (SlotIndex request = cursor_; request < until; ++request) {
    if (!varies_for(request, key) || !is_open(request)) continue;
    if (fits(request, key) && plausible(request, key) && tells(request, 0)) return request;
  }
  return kNoSlot;
}

SlotIndex Replayer::find_far(RequestKey key) const noexcept {
  const std::uint64_t until = std::uint64_t{cursor_} + tuning::kFarWindow;
  SlotIndex from = cursor_;
  for (int candidates = 0; candidates < tuning::kMostCandidates; ++candidates) {
    const auto found = plan_.next_exact(key, from);
    if (!found || *found >= until) break;
    const bool pair = *found > 0 && plan_.slot(*found - 1).key == missed_;
    if (pair && (tells(*found, 0) || plan_.landmark(*found - 1))) return *found;
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
  if (reason != Miss::kTooLarge) too_large_ = kNoSlot;
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
